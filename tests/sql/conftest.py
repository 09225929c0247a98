from support.database import engine, mariadb, url

__all__ = ["engine", "mariadb", "url"]
