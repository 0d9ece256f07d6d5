# Steps of one call; results of studies in /tmp/res.
set -u
part=$1; commit=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir -p /tmp/warp; cp .warp*/* /tmp/warp/ 2>/dev/null
[ -d .whl ] && python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site .whl/*.whl 2>&1 | tail -2
export PYTHONPATH=/tmp/site:$PWD GPUBENCH_COMMIT=$commit PYTHONUNBUFFERED=1
begin=$(date +%s); LIMIT=${LIMIT:-585}
left() { echo $(( begin + LIMIT - $(date +%s) )); }
tests() {
  limit=$1; shift; t0=$(date +%s)
  timeout -s INT -k 20 $limit env GPUBENCH_REQUIRE_CUDA=1 python3 -m pytest -q -p no:benchmark -p no:cacheprovider -m "cuda" -n 8 "$@" > $OUT/tests-$part.log 2>&1
  echo "== tests rc=$? $(( $(date +%s) - t0 )) s"; tail -25 $OUT/tests-$part.log | cut -c1-220
}
study() {
  limit=$1; shift; t0=$(date +%s)
  [ $(left) -lt $limit ] && limit=$(left)
  [ $limit -lt 12 ] && { echo "-- no time: $*"; return; }
  timeout -s INT -k 20 $limit python3 -m gpubench run "$@" --device cuda --out /tmp/res >/tmp/log 2>&1
  echo "== $* rc=$? $(( $(date +%s) - t0 )) s"; grep -v "^$" /tmp/log | tail -3 | cut -c1-160
}
sim() {
  name=$1; steps=$2; t0=$(date +%s)
  mkdir -p /tmp/sims
  timeout -k 10 $(left) python3 -m gpubench simulate $name --particles 65536 --steps $steps --frames /tmp/sims/$name --device cuda --json > /tmp/sims/$name.json 2>/tmp/log
  echo "== simulate $name rc=$? $(( $(date +%s) - t0 )) s"; tail -2 /tmp/log | cut -c1-200
}
back() {
  mkdir -p /tmp/back; for f in /tmp/res/*/*.json /tmp/res/*.json; do [ -f $f ] && gzip -9nc $f > /tmp/back/$(basename $f).gz; done
  tar -cf $OUT/res-$part.tar -C /tmp/back . ; [ -d /tmp/sims ] && tar -czf $OUT/sims-$part.tgz -C /tmp sims; ls -la $OUT
}
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
. ./gpu1-$part.sh
back
