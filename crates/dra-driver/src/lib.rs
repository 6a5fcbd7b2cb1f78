//! Makes the devices of claims ready on a node, and takes them back.
