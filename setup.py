"""Packages of the wheel; all else is in pyproject.toml."""

from setuptools import find_namespace_packages, setup

# Folders of data, too, which have no __init__.py.
packages = find_namespace_packages(include=["jaxner*"], exclude=["*__pycache__*"])
setup(
    packages=[*packages, "jaxner.configs"],
    package_dir={"jaxner.configs": "configs"},
)
