//! What is decided and written, over a store in memory.
