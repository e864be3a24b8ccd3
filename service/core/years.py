"""How long a year is, wherever something is counted by the year: its mean length with leap days.

SCI's four years are 35,064 hours.

References
----------
Green Software Foundation, Software Carbon Intensity (ISO/IEC 21031:2024).
"""

from typing import Final

DAYS_PER_YEAR: Final = 365.25
HOURS_PER_YEAR: Final = 24.0 * DAYS_PER_YEAR
HOURS_PER_MONTH: Final = HOURS_PER_YEAR / 12.0
SECONDS_PER_YEAR: Final = 3_600.0 * HOURS_PER_YEAR
