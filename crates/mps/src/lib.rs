//! One MPS control daemon for each shared GPU or MIG device: started, limited, checked, kept alive.
