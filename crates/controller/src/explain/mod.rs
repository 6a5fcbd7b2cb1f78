//! Why a pod waits, or where it landed, in words: told from the objects of the API server as they are now.

mod devices;
mod door;
mod left;
mod story;

pub use door::explain_pod;
pub use story::{Evidence, Line, Story, story};
