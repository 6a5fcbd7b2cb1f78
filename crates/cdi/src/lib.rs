//! Puts GPUs into containers without NVIDIA's toolkit: driver files, CDI specs, and the hook that runs at container start.
