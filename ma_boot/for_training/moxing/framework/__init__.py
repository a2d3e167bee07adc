"""`moxing.framework`, of which only `file` exists here."""


def __getattr__(name):
    """Loads `file` on demand: `import moxing.framework as mox`."""
    if name != "file":
        import moxing

        return moxing.__getattr__("framework." + name)
    import importlib

    return importlib.import_module("moxing.framework.file")
