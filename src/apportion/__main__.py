"""``python -m apportion``: the same as the command ``apportion``."""

from apportion.cli import main

if __name__ == "__main__":
    main()
