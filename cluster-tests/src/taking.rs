//! The image with programs that take memory and time of a simulated GPU.

use crate::Cluster;
use carve_lab::{Image, Programs};
use std::path::Path;

/// Its name.
pub const TAKING: &str = "localhost/takes:1";

/// Brings it to the nodes. Where the two programs are is known to tests alone.
pub fn import_taking(cluster: &Cluster, takes_memory: &str, takes_time: &str) {
    let mut image = Image::new(TAKING);
    for (program, path) in [
        (takes_memory, "/takes-memory"),
        (takes_time, "/takes-time"),
        ("/bin/sleep", "/bin/sleep"),
        ("/usr/bin/env", "/usr/bin/env"),
    ] {
        image = image.program(Path::new(program), path).unwrap_or_else(|error| panic!("{path}: {error:#}"));
    }
    cluster.import(&image);
}
