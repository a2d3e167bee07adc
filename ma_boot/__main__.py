"""`python -m ma_boot`."""

from ma_boot.cli.app import main

raise SystemExit(main())
