"""Settings of a process: a file, the environment, flags, in rising order.

A settings class is one group of values. Its fields' descriptions are the reference page, docs/settings.md, which
`make docs` writes. The file is TOML with a table a group, ``[brain]`` for BrainSettings; the environment is
``CONVOY_`` plus the field's name in capitals.
"""

from __future__ import annotations

import os
import tomllib
from typing import Any, ClassVar, Self

from pydantic import AliasChoices, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from convoy.core.api.errors import InvalidSetting
from convoy.core.process import paths


class Settings(BaseSettings):
    """Base of all settings classes; ``TABLE`` is the group's table in the file.

    A field's ``validation_alias`` names variables that are read beside its own, such as one that a pod is given.
    """

    TABLE: ClassVar[str] = ""

    model_config = SettingsConfigDict(env_prefix="CONVOY_", extra="ignore", frozen=True, populate_by_name=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then the environment, then the file."""
        return init_settings, env_settings, _File(settings_cls)

    @classmethod
    def load(cls, **flags: Any) -> Self:
        """Return the settings; a flag that is None wasn't given.

        Raises:
            InvalidSetting: a value is wrong, or the file can't be read or holds an unknown name.
        """
        given = {name: value for name, value in flags.items() if value is not None}
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = cls._field(str(first["loc"][0])) if first["loc"] else cls.TABLE
            from convoy.core.process.logs import redact

            shown = redact({name: first.get("input")})[name]
            file = f"[{cls.TABLE}] {name} in {paths.config_file()}"
            remedy = "correct the command's flag" if name in given else f"set CONVOY_{name.upper()} or {file}"
            raise InvalidSetting(f"{name}: {first['msg']}, not {shown!r}; {remedy}") from None
        except SettingsError as error:  # a list or a table in an environment variable that isn't JSON
            raise InvalidSetting(f"{error} (CONVOY_*): {error.__cause__}; write it as JSON") from None

    @classmethod
    def variables(cls, name: str) -> list[str]:
        """Return the environment variables of a field; the first that is set counts."""
        alias = cls.model_fields[name].validation_alias
        others = alias.choices if isinstance(alias, AliasChoices) else [alias] if alias is not None else []
        return [*map(str, others), f"CONVOY_{name.upper()}"]

    @classmethod
    def _field(cls, said: str) -> str:
        return next((name for name in cls.model_fields if said in (name, *cls.variables(name))), said)


class _File(PydanticBaseSettingsSource):
    """The settings class's table of the TOML file."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        path = paths.config_file()
        name = getattr(self.settings_cls, "TABLE", "")
        if not path.is_file():
            if os.environ.get("CONVOY_CONFIG"):
                raise InvalidSetting(f"CONVOY_CONFIG: {path} is no file; create it, or unset the variable")
            return {}
        try:
            table = tomllib.loads(path.read_text()).get(name, {})
        except (OSError, ValueError) as error:
            raise InvalidSetting(f"{path}: {error}; correct it, or name another file with CONVOY_CONFIG") from None
        if not isinstance(table, dict):
            raise InvalidSetting(f"{path}: {name} is {table!r}, expected a table: [{name}]")
        unknown = sorted(set(table) - set(self.settings_cls.model_fields))
        if unknown:
            known = ", ".join(sorted(self.settings_cls.model_fields))
            raise InvalidSetting(f"{path}: [{name}] has no setting named {unknown[0]!r}; expected one of {known}")
        return dict(table)
