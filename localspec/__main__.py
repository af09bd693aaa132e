"""`python -m localspec` is the same as the `localspec` command."""

from localspec.cli.app import main

if __name__ == "__main__":
    main()
