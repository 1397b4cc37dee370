"""The granularity sweep on images: labels of every sort, trainings of digits and of photographs, tables and figures."""
