//! CUDA's driver interface by dlopen, as little of it as carve needs, and the programs that prove a GPU works.
