//! A stand-in for libcuda.so.1 on simulated machines.
