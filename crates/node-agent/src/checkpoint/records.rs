//! The health records as JSON.

use carve_gpu_model::{GpuUuid, Xid};
use carve_slicing::PartId;
use carve_slicing::health::{Fault, FaultCause, GpuRecord, HealthRecords, MpsRecord, Seconds, Sequence};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Serialize, Deserialize)]
struct Written {
    sequence: u64,
    gpus: Vec<WrittenGpu>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenGpu {
    uuid: String,
    lost: Option<u64>,
    faults: Vec<WrittenFault>,
    mps: Vec<WrittenMps>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenFault {
    xid: Option<u64>,
    probe: Option<String>,
    part: Option<String>,
    since: u64,
    provable: bool,
    good_probes: u32,
    counted_at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenMps {
    part: String,
    since: u64,
    reason: String,
}

pub(super) fn write(records: &HealthRecords) -> Value {
    let fault = |fault: &Fault| WrittenFault {
        xid: match &fault.cause {
            FaultCause::Xid(xid) => Some(xid.0),
            FaultCause::Probe(_) => None,
        },
        probe: match &fault.cause {
            FaultCause::Xid(_) => None,
            FaultCause::Probe(why) => Some(why.clone()),
        },
        part: fault.part.as_ref().map(ToString::to_string),
        since: fault.since.0,
        provable: fault.provable,
        good_probes: fault.good_probes,
        counted_at: fault.counted_at.0,
    };
    let mps = |mps: &MpsRecord| WrittenMps {
        part: mps.part.to_string(),
        since: mps.since.0,
        reason: mps.reason.clone(),
    };
    let gpu = |gpu: &GpuRecord| WrittenGpu {
        uuid: gpu.gpu.to_string(),
        lost: gpu.lost.map(|since| since.0),
        faults: gpu.faults.iter().map(fault).collect(),
        mps: gpu.mps.iter().map(mps).collect(),
    };
    let written = Written { sequence: records.sequence.0, gpus: records.gpus.iter().map(gpu).collect() };
    serde_json::to_value(written).unwrap_or(Value::Null)
}

pub(super) fn read(value: &Value) -> Result<HealthRecords, String> {
    let written = Written::deserialize(value).map_err(|error| error.to_string())?;
    let fault = |fault: WrittenFault| {
        let cause = match (fault.xid, fault.probe) {
            (Some(xid), _) => FaultCause::Xid(Xid(xid)),
            (None, Some(why)) => FaultCause::Probe(why),
            (None, None) => return Err("a fault has neither xid nor probe".to_owned()),
        };
        Ok(Fault {
            cause,
            part: fault.part.map(PartId::new),
            since: Sequence(fault.since),
            provable: fault.provable,
            good_probes: fault.good_probes,
            counted_at: Seconds(fault.counted_at),
        })
    };
    let gpu = |gpu: WrittenGpu| {
        let mps = gpu.mps.into_iter().map(|mps| MpsRecord {
            part: PartId::new(mps.part),
            since: Sequence(mps.since),
            reason: mps.reason,
        });
        Ok::<_, String>(GpuRecord {
            gpu: GpuUuid(gpu.uuid),
            lost: gpu.lost.map(Sequence),
            faults: gpu.faults.into_iter().map(fault).collect::<Result<_, _>>()?,
            mps: mps.collect(),
        })
    };
    let gpus = written.gpus.into_iter().map(gpu).collect::<Result<_, _>>()?;
    Ok(HealthRecords { sequence: Sequence(written.sequence), gpus })
}
