//! What the agent must know after a restart: which GPUs were sick, and with what.
//!
//! A plugin that forgets on restart heals every GPU by being killed. The file is written whole and renamed; one that does
//! not read is put aside, told, and treated as absent.

mod records;

use carve_slicing::health::{GpuRecord, HealthRecords};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    path: PathBuf,
    written: Option<Vec<GpuRecord>>,
}

/// What was found at the start.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) records: Option<HealthRecords>,
    /// Boot of the machine in which the records were written.
    pub(crate) boot: Option<String>,
    /// Why the file was put aside.
    pub(crate) trouble: Option<String>,
}

impl Checkpoint {
    /// The checkpoint in a folder.
    pub(crate) fn new(folder: &Path) -> Self {
        Checkpoint { path: folder.join("agent.json"), written: None }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it.
    pub(crate) fn restore(&self) -> Restored {
        let nothing = Restored { records: None, boot: None, trouble: None };
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return nothing,
            Err(error) => {
                let trouble = Some(format!("{} can not be read: {error}", self.path.display()));
                return Restored { trouble, ..nothing };
            }
        };
        let read =
            serde_json::from_str::<Value>(&text).map_err(|error| error.to_string()).and_then(|value| {
                let records = records::read(&value["health"])?;
                Ok((records, value["boot"].as_str().map(str::to_owned)))
            });
        match read {
            Ok((records, boot)) => Restored { records: Some(records), boot, trouble: None },
            Err(why) => {
                let aside = self.path.with_extension("json.corrupt");
                let moved = fs::rename(&self.path, &aside);
                let path = self.path.display();
                let place = match moved {
                    Ok(()) => format!("put aside as {}", aside.display()),
                    Err(error) => format!("it can not be put aside: {error}"),
                };
                let trouble = format!(
                    "{path} does not read ({why}); {place}; the health of GPUs before this start is not known"
                );
                Restored { trouble: Some(trouble), ..nothing }
            }
        }
    }

    /// Writes it, if it says anything new about a GPU.
    pub(crate) fn save(&mut self, records: &HealthRecords, boot: &str) -> std::io::Result<()> {
        let records = &without_mps(records);
        if self.written.as_ref() == Some(&records.gpus) {
            return Ok(());
        }
        let text = format!("{:#}\n", serde_json::json!({"boot": boot, "health": records::write(records)}));
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = self.path.with_extension("json.new");
        let written = fs::File::create(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        });
        if let Err(error) = written {
            // Half a file takes room that is missing already.
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        self.written = Some(records.gpus.clone());
        Ok(())
    }
}

/// How MPS daemons are is found out anew at every start; only what can not be found out is kept.
fn without_mps(records: &HealthRecords) -> HealthRecords {
    let kept = records.gpus.iter().filter(|gpu| gpu.lost.is_some() || !gpu.faults.is_empty());
    let gpus = kept.map(|gpu| GpuRecord { mps: Vec::new(), ..gpu.clone() }).collect();
    HealthRecords { sequence: records.sequence, gpus }
}

#[cfg(test)]
mod tests {
    use super::Checkpoint;
    use carve_gpu_model::{GpuUuid, Xid};
    use carve_slicing::PartId;
    use carve_slicing::health::{Fault, FaultCause, GpuRecord, HealthRecords, MpsRecord, Seconds, Sequence};

    fn records() -> HealthRecords {
        let fault = |cause, part: Option<&str>| Fault {
            cause,
            part: part.map(PartId::new),
            since: Sequence(3),
            provable: true,
            good_probes: 2,
            counted_at: Seconds(1_700_000_000),
        };
        let gpu = GpuRecord {
            gpu: GpuUuid("GPU-1".to_owned()),
            lost: Some(Sequence(7)),
            faults: vec![
                fault(FaultCause::Xid(Xid(79)), None),
                fault(FaultCause::Probe("no answer".to_owned()), Some("MIG-1")),
            ],
            mps: vec![MpsRecord {
                part: PartId::new("GPU-1"),
                since: Sequence(8),
                reason: "dead".to_owned(),
            }],
        };
        HealthRecords { sequence: Sequence(9), gpus: vec![gpu] }
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut checkpoint = Checkpoint::new(folder.path());
        assert!(checkpoint.restore().records.is_none());
        checkpoint.save(&records(), "boot-1").expect("it is written");
        let restored = Checkpoint::new(folder.path()).restore();
        assert_eq!(restored.records, Some(super::without_mps(&records())));
        assert_eq!(restored.boot.as_deref(), Some("boot-1"));
    }

    #[test]
    fn a_broken_file_is_put_aside_and_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.json");
        for broken in ["", "{", "{\"health\": {\"sequence\": -1}}", "[1, 2]", "\u{0}\u{1}"] {
            std::fs::write(&path, broken).expect("a file");
            let restored = Checkpoint::new(folder.path()).restore();
            assert!(restored.records.is_none());
            assert!(restored.trouble.is_some_and(|why| why.contains("put aside")), "{broken}");
            assert!(!path.exists() && folder.path().join("agent.json.corrupt").exists());
        }
    }
}
