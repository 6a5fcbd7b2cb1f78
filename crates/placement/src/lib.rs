//! Which slice serves which claim: choosing devices inside a node, and saying why.
#![warn(clippy::disallowed_methods)]
