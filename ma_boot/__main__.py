"""`python -m ma_boot`."""

from ma_boot.cli import main

raise SystemExit(main())
