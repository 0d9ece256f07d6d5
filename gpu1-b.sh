study 200 rozen2008-dpd
study 60 silva2012-stability
study 60 rozen2008-partial-resort
study 60 rozen2008-partial-update
study 60 rozen2008-random-numbers
study 150 horn2005-subdivision
study 250 slides-ellpack --algorithms matrix-free,ellpack-blocks,ellpack-staged,sliced-ell,csr-product
study 150 constraint-fluid
