"""Packages of the wheel; all else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["jaxner*"]), "jaxner.configs"],
    package_dir={"jaxner.configs": "configs"},
)
