//! The release before this one: its chart, and its image on the nodes.

use crate::Cluster;
use carve_lab::{Image, Programs};
use std::path::PathBuf;

/// Tag of its image in the lab.
const TAG: &str = "previous";

/// What people upgrade from.
#[derive(Debug)]
pub struct Previous {
    folder: PathBuf,
}

impl Previous {
    /// Brings its image onto the nodes. `None` (said aloud) where it was not built.
    pub fn bring(cluster: &Cluster) -> Option<Self> {
        let Some(folder) = std::env::var_os("CARVE_PREVIOUS_RELEASE").map(PathBuf::from) else {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "CARVE_PREVIOUS_RELEASE must name a folder"
            );
            eprintln!(
                "SKIPPED: CARVE_PREVIOUS_RELEASE does not name the release before ('cargo xtask suites' builds it)"
            );
            return None;
        };
        let library = folder.join("libcarve_limiter.so");
        let limiter =
            std::fs::read(&library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
        let image = Image::new(&format!("localhost/carve:{TAG}"))
            .program(&folder.join("carve"), "/carve")
            .unwrap_or_else(|error| panic!("{error:#}"))
            .file("/usr/lib/carve/libcarve_limiter.so", limiter, true)
            .env("HOME", "/tmp")
            .entrypoint(["/carve"]);
        cluster.import(&image);
        Some(Previous { folder })
    }

    /// Its chart.
    pub(crate) fn chart(&self) -> String {
        self.folder.join("chart").display().to_string()
    }

    /// The value that names its image.
    pub(crate) fn tag(&self) -> String {
        format!("image.tag={TAG}")
    }
}
