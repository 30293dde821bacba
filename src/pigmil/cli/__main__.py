"""``python -m pigmil.cli``."""

from pigmil._core.isolation import leave_working_folder

leave_working_folder()

from pigmil.cli import main  # noqa: E402

main()
