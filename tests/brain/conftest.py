from support.database import engine, mariadb, shared_mariadb, store, url

__all__ = ["engine", "mariadb", "shared_mariadb", "store", "url"]
