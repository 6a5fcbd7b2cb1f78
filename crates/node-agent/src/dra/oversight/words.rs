//! What is said when the limiter is evaded, in trouble, or can not be watched.

use super::escapes::Escape;
use carve_dra_driver::ClaimRecord;
use carve_limiter_host::Trouble;

/// A process that no share knows.
pub(super) const ESCAPED: &str = "LimiterEscaped";
/// The limiter does not do its work in a share.
pub(super) const TROUBLE: &str = "LimiterTrouble";
/// Nobody looks for processes that escape.
pub(super) const BLIND: &str = "LimiterNotWatched";

pub(super) fn escaped(escape: &Escape, name: &str, pod: Option<&str>) -> String {
    let Escape { part, pid, bytes } = escape;
    let whose = pod.map_or_else(|| "of no pod".to_owned(), |uid| format!("of the pod with UID {uid}"));
    let holds = bytes.map_or_else(
        || "memory that the driver does not tell".to_owned(),
        |bytes| format!("{} MiB", bytes >> 20),
    );
    format!(
        "process {pid} ({name}) {whose} uses {part} and holds {holds}, but no share there has counted it: it is not limited. It may be \
         linked without the dynamic loader, or have taken /etc/ld.so.preload away; delete the pod, or end the process, and let it \
         claim a whole GPU or a MIG device"
    )
}

pub(super) fn escaped_too(number: usize) -> String {
    format!(
        "{number} more processes at once are counted by no share of the GPU they use: they are not limited. `nvidia-smi` on the node lists them"
    )
}

pub(super) fn trouble(claim: &ClaimRecord, part: &str, trouble: Trouble) -> String {
    let (comes, todo) = match trouble {
        Trouble::Slots => (
            "further ones are refused CUDA, or run without limits where the claim lets them pass",
            "start fewer processes in one container, or divide them among claims",
        ),
        Trouble::Ledger => {
            ("some memory is not counted", "raise the memory limit of the container and start it again")
        }
        Trouble::Events => (
            "time is not measured and not limited",
            "start the container again; if it stays so, look at the GPU's health",
        ),
        Trouble::Contexts => (
            "time in some of them is not limited",
            "use fewer contexts in a process, one for each GPU is usual",
        ),
        Trouble::Other(_) => {
            ("what that means is not known here", "bring the agent to the limiter's version")
        }
    };
    format!("{} on {part}: {trouble}; {comes}. To do: {todo}", claim.title())
}

pub(super) fn unreadable(claim: &ClaimRecord, part: &str, error: &dyn std::error::Error) -> String {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        why = format!("{why}: {next}");
        source = next.source();
    }
    format!(
        "{} on {part}: what its containers use can not be read ({why}). A process of theirs may have damaged the file; its limits hold all \
         the same. To do: delete the pod and its claim, so that both are made anew",
        claim.title()
    )
}

pub(super) fn blind(pid: Option<u32>) -> String {
    let why = match pid {
        Some(pid) => format!(
            "the driver shows process {pid} on a GPU with fractions, and there is no such process here"
        ),
        None => "the agent is process 1 of a pid namespace of its own".to_owned(),
    };
    format!(
        "processes that escape the limiter are not looked for: {why}. Run the agent in the host's pid namespace (hostPID: true); limits hold \
         all the same"
    )
}

/// Troubles of one kind are told once. Codes that are not known are one kind: a container can write any number.
pub(super) fn kind(trouble: Trouble) -> u64 {
    match trouble {
        Trouble::Other(_) => u64::MAX,
        known => known.code(),
    }
}
