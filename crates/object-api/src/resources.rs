//! Which kinds of objects there are.

use carve_object_store::Resource;

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its group; the first one has no name.
    pub group: &'static str,
    /// The version of the group.
    pub version: &'static str,
    /// As objects say it.
    pub kind: &'static str,
    /// As paths say it.
    pub plural: &'static str,
    /// As people say it.
    pub singular: &'static str,
    /// For those who type much.
    pub short: &'static [&'static str],
    /// Whether it is in a namespace.
    pub namespaced: bool,
    /// Parts that are read and written by themselves.
    pub parts: &'static [&'static str],
}

const fn kind(
    group: &'static str,
    version: &'static str,
    names: (&'static str, &'static str, &'static str),
    short: &'static [&'static str],
    namespaced: bool,
    parts: &'static [&'static str],
) -> Kind {
    let (kind, plural, singular) = names;
    Kind { group, version, kind, plural, singular, short, namespaced, parts }
}

const STATUS: &[&str] = &["status"];
const SCALE: &[&str] = &["status", "scale"];

/// All of them.
pub const KINDS: &[Kind] = &[
    kind("", "v1", ("Namespace", "namespaces", "namespace"), &["ns"], false, STATUS),
    kind("", "v1", ("Node", "nodes", "node"), &["no"], false, STATUS),
    kind("", "v1", ("Pod", "pods", "pod"), &["po"], true, &["status", "binding", "eviction"]),
    kind("", "v1", ("Event", "events", "event"), &["ev"], true, &[]),
    kind("", "v1", ("ConfigMap", "configmaps", "configmap"), &["cm"], true, &[]),
    kind("", "v1", ("Secret", "secrets", "secret"), &[], true, &[]),
    kind("", "v1", ("Service", "services", "service"), &["svc"], true, STATUS),
    kind("", "v1", ("ServiceAccount", "serviceaccounts", "serviceaccount"), &["sa"], true, &[]),
    kind("", "v1", ("ResourceQuota", "resourcequotas", "resourcequota"), &["quota"], true, STATUS),
    kind(
        "",
        "v1",
        ("PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim"),
        &["pvc"],
        true,
        STATUS,
    ),
    kind("apps", "v1", ("Deployment", "deployments", "deployment"), &["deploy"], true, SCALE),
    kind("apps", "v1", ("ReplicaSet", "replicasets", "replicaset"), &["rs"], true, SCALE),
    kind("apps", "v1", ("StatefulSet", "statefulsets", "statefulset"), &["sts"], true, SCALE),
    kind("apps", "v1", ("DaemonSet", "daemonsets", "daemonset"), &["ds"], true, STATUS),
    kind("batch", "v1", ("Job", "jobs", "job"), &[], true, STATUS),
    kind("batch", "v1", ("CronJob", "cronjobs", "cronjob"), &["cj"], true, STATUS),
    kind("coordination.k8s.io", "v1", ("Lease", "leases", "lease"), &[], true, &[]),
    kind("events.k8s.io", "v1", ("Event", "events", "event"), &[], true, &[]),
    kind(
        "scheduling.k8s.io",
        "v1",
        ("PriorityClass", "priorityclasses", "priorityclass"),
        &["pc"],
        false,
        &[],
    ),
    kind(
        "policy",
        "v1",
        ("PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget"),
        &["pdb"],
        true,
        STATUS,
    ),
    kind(
        "admissionregistration.k8s.io",
        "v1",
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "mutatingwebhookconfiguration"),
        &[],
        false,
        &[],
    ),
    kind("resource.k8s.io", "v1", ("DeviceClass", "deviceclasses", "deviceclass"), &[], false, &[]),
    kind("resource.k8s.io", "v1", ("ResourceClaim", "resourceclaims", "resourceclaim"), &[], true, STATUS),
    kind(
        "resource.k8s.io",
        "v1",
        ("ResourceClaimTemplate", "resourceclaimtemplates", "resourceclaimtemplate"),
        &[],
        true,
        &[],
    ),
    kind("resource.k8s.io", "v1", ("ResourceSlice", "resourceslices", "resourceslice"), &[], false, &[]),
    kind("carve.dev", "v1beta1", ("SlicePolicy", "slicepolicies", "slicepolicy"), &[], false, STATUS),
    kind("carve.dev", "v1alpha1", ("SlicePlan", "sliceplans", "sliceplan"), &[], false, STATUS),
];

impl Kind {
    /// As the store calls it. Events are the same objects under both of their groups.
    pub fn resource(&self) -> Resource {
        Resource::new(self.plural, if self.kind == "Event" { "" } else { self.group })
    }

    /// As objects say their version.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// As messages say it: `deployments.apps`.
    pub fn named(&self) -> String {
        Resource::new(self.plural, self.group).0
    }

    pub(crate) fn by_path(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| (kind.group, kind.version, kind.plural) == (group, version, plural))
    }

    /// What an object says that it is.
    pub fn of_object(api_version: &str, kind: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|one| one.kind == kind && one.api_version() == api_version)
    }
}

/// A kind as people write it: `pods`, `po`, `deployment.apps`, `deployments.v1.apps`.
pub fn kind_named(written: &str) -> Option<&'static Kind> {
    let lower = written.to_lowercase();
    let (name, group) = lower.split_once('.').unwrap_or((&lower, ""));
    let is = |kind: &&Kind| {
        let named = kind.plural == name || kind.singular == name || kind.short.contains(&name);
        named
            && (group.is_empty()
                || group == kind.group
                || group == format!("{}.{}", kind.version, kind.group))
    };
    KINDS.iter().find(is)
}

#[cfg(test)]
mod tests {
    use super::{KINDS, kind_named};

    #[test]
    fn people_write_kinds_in_many_ways() {
        for (written, kind) in [
            ("po", "Pod"),
            ("Pods", "Pod"),
            ("deployment.apps", "Deployment"),
            ("deployments.v1.apps", "Deployment"),
            ("slicepolicies", "SlicePolicy"),
            ("slicepolicy.carve.dev", "SlicePolicy"),
        ] {
            assert_eq!(kind_named(written).map(|found| found.kind), Some(kind), "{written}");
        }
        assert_eq!(kind_named("deployments.batch"), None);
        assert_eq!(kind_named("nonsense"), None);
    }

    #[test]
    fn no_path_means_two_kinds() {
        for (number, one) in KINDS.iter().enumerate() {
            assert!(
                KINDS[..number].iter().all(|other| (one.group, one.plural) != (other.group, other.plural))
            );
        }
    }
}
