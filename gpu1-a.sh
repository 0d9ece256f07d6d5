study 200 again
tests 150 tests/neighbours tests/devices tests/algorithms/test_loop_subdivision.py tests/algorithms/test_sparse_product.py tests/workloads/test_constraint_fluid.py tests/workloads/test_dpd.py tests/workloads/test_dpd_physics.py
sim dpd-rozen2008-separation 10000
sim dpd-rozen2008-rayleigh-taylor 8000
study 200 rozen2008-dpd
study 150 silva2012-stability
