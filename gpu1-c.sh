if [ $(ls /tmp/warp/ | wc -l) = 4 ]; then
  tar -xJf /tmp/warp/warp.tar.xz -C /tmp/site
  cat /tmp/warp/so.xz.? | xz -dc > /tmp/site/warp/bin/warp.so && python3 -c "import warp; warp.init()" | tail -3
fi
study 120 library-calls
study 150 constraint-fluid
study 150 slides-ellpack --algorithms matrix-free,ellpack-blocks,ellpack-staged,sliced-ell,csr-product
study 100 rozen2008-breakdown
study 100 horn2005-collision
study 300 dpd-step
