# One image for the scheduler, the workers and the sweep command: docker build -t fitness-sweep .
FROM python:3.12-slim

WORKDIR /opt/fitness-sweep
COPY requirements.txt ./
RUN python -m pip install --no-cache-dir --require-hashes -r requirements.txt
COPY pyproject.toml README.md LICENSE fitness_sweep.py ./
COPY workloads workloads
COPY solvers solvers
COPY sweep sweep
RUN python -m pip install --no-cache-dir --no-build-isolation ".[kubernetes,objects]"

RUN useradd --create-home --uid 1000 sweep
USER 1000
WORKDIR /home/sweep
CMD ["sweep", "--help"]
