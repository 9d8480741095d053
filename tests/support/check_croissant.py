"""What mlcroissant says of a Croissant file, as JSON: errors, warnings, and how many files, file sets and fields.

A program of its own, for importing mlcroissant warns: ``python check_croissant.py FILE``.
"""

import json
import logging
import sys

import mlcroissant
from absl import logging as absl

said = []


class Keep(logging.Handler):
    def emit(self, record):
        if record.levelno >= logging.WARNING:
            said.append(record.getMessage())


absl.get_absl_logger().addHandler(Keep())
errors, warnings, counts = [], [], []
try:
    found = mlcroissant.Dataset(sys.argv[1]).metadata
    errors, warnings = sorted(map(str, found.ctx.issues.errors)), sorted(map(str, found.ctx.issues.warnings))
    counts = [len(found.file_objects), len(found.file_sets), len(found.record_sets[0].fields)]
except mlcroissant.ValidationError as error:
    errors = [str(error)]
sys.stdout.write(json.dumps([errors, sorted({*warnings, *said}), counts]) + "\n")
