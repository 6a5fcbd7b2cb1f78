//! Which container of a pod it is that starts with these tokens.
//!
//! Kubelet does not list init containers that run to their end, and gives their tokens to later containers of the pod again. What was started
//! before, in which order containers start, and what the API server has heard of init containers tell them apart.

use crate::slices::{ContainerSlices, Slices};
use crate::start::{StartRefusal, Started, TokenHolder};
use crate::want::Stage;
use std::collections::{BTreeMap, BTreeSet};

/// What the API server has heard of an init container. It hears later than kubelet goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitState {
    /// It runs.
    Running,
    /// It has ended well, and will not be started again in this sandbox.
    Done,
    /// It has failed, or waits to be started.
    NotDone,
}

/// What is known when a container of a pod starts.
#[derive(Debug, Clone, Copy)]
pub struct Starting<'a> {
    /// `namespace/name` of its pod.
    pub pod: &'a str,
    /// The tokens that kubelet names.
    pub tokens: &'a BTreeSet<String>,
    /// Who holds tokens.
    pub holders: &'a [TokenHolder],
    /// What was decided for the pod.
    pub slices: &'a Slices,
    /// What was started of the pod on this node.
    pub before: Option<&'a Started>,
    /// What the API server has heard of the pod's init containers; nothing of those that were never started.
    pub init: &'a BTreeMap<String, InitState>,
}

/// The container that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// This one, or one that has the same parts.
    This(ContainerSlices),
    /// An init container again, or the one after it: that is known as soon as the API server has heard how the init container ended.
    Unsure {
        /// The init container, where the API server says that it does not run: it is this one, unless what is heard changes soon.
        again: Option<ContainerSlices>,
        /// What to say if that is never known.
        refusal: StartRefusal,
    },
}

impl Starting<'_> {
    /// Finds the container.
    pub fn whose(&self) -> Result<Whose, StartRefusal> {
        let candidates = self.candidates();
        let Some(first) = candidates.first() else { return Err(self.nobody()) };
        let heard = |one: &ContainerSlices| {
            let state = self.init.get(&one.name).copied();
            state.filter(|_| one.stage == Stage::Init)
        };
        // Containers start in their order, so it is the last that was started, or the first that was not. One that comes after an init
        // container that is not done was started in an earlier sandbox, if at all.
        let (mut again, mut next, mut open) = (None, None, false);
        for one in candidates.iter().filter(|one| heard(one) != Some(InitState::Done)) {
            // One that runs was started, also where nobody has a record of it.
            let started = self.tokens_of(one).is_some() || heard(one) == Some(InitState::Running);
            if started && !open {
                again = Some(*one);
            } else {
                next = next.or(Some(*one));
            }
            open |= heard(one).is_some();
        }
        match (again, next) {
            (Some(again), Some(next)) if again.slices == next.slices => Ok(Whose::This(next.clone())),
            (Some(again), Some(next)) => Ok(self.unsure(again, next)),
            (Some(one), None) | (None, Some(one)) => Ok(Whose::This(one.clone())),
            // All of them had ended well: the pod has a new sandbox, in which the first comes first.
            (None, None) => Ok(Whose::This((*first).clone())),
        }
    }

    /// Containers that may have these tokens: the one that kubelet lists with them, and init containers before it.
    fn candidates(&self) -> Vec<&ContainerSlices> {
        let lists = |one: &ContainerSlices| {
            let holds = |holder: &TokenHolder| holder.container == one.name && holder.tokens == *self.tokens;
            self.holders.iter().any(|holder| holder.pod == self.pod && holds(holder))
        };
        let containers = &self.slices.containers;
        let listed = containers.iter().position(lists);
        let before = &containers[..listed.unwrap_or(containers.len())];
        let may = |one: &&ContainerSlices| {
            let its_own = self.tokens_of(one).is_none_or(|tokens| tokens == self.tokens);
            one.stage == Stage::Init && its_own
        };
        let all = before.iter().filter(may).chain(listed.map(|listed| &containers[listed]));
        all.filter(|one| one.slices.len() == self.tokens.len()).collect()
    }

    /// The tokens with which a container was started before: kubelet never gives it others.
    fn tokens_of(&self, container: &ContainerSlices) -> Option<&BTreeSet<String>> {
        self.before?.tokens.get(&container.name)
    }

    fn unsure(&self, again: &ContainerSlices, next: &ContainerSlices) -> Whose {
        let runs = self.init.get(&again.name) == Some(&InitState::Running);
        let refusal = StartRefusal::Ambiguous {
            pod: self.pod.to_owned(),
            container: next.name.clone(),
            init: again.name.clone(),
        };
        Whose::Unsure { again: (!runs).then(|| again.clone()), refusal }
    }

    fn nobody(&self) -> StartRefusal {
        let listed = self.holders.iter().find(|one| one.pod == self.pod && one.tokens == *self.tokens);
        let name = listed.map(|one| one.container.as_str());
        StartRefusal::Count {
            pod: self.pod.to_owned(),
            container: name
                .map_or_else(|| "an init container".to_owned(), |name| format!("container {name}")),
            tokens: self.tokens.len(),
            slices: name.and_then(|name| self.slices.of(name)).map_or(0, <[_]>::len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InitState, Starting, Whose};
    use crate::{Compute, ContainerSlices, Slice, Slices, Stage, StartRefusal, Started, TokenHolder};
    use carve_gpu_model::{GpuUuid, Mebibytes};
    use std::collections::{BTreeMap, BTreeSet};

    fn set(tokens: &[&str]) -> BTreeSet<String> {
        tokens.iter().map(|&token| token.to_owned()).collect()
    }

    fn container(name: &str, stage: Stage, parts: &[u64]) -> ContainerSlices {
        let slice = |&memory: &u64| Slice {
            gpu: GpuUuid("GPU-0".to_owned()),
            memory: Mebibytes(memory),
            compute: Compute(100),
            burst: false,
        };
        ContainerSlices { name: name.to_owned(), stage, slices: parts.iter().map(slice).collect() }
    }

    /// A pod on a node, as far as its tokens go.
    struct Pod {
        slices: Slices,
        holders: Vec<TokenHolder>,
        started: Started,
        init: BTreeMap<String, InitState>,
    }

    impl Pod {
        fn new(containers: &[ContainerSlices], listed: &[(&str, &[&str])]) -> Self {
            let holder = |(container, tokens): &(&str, &[&str])| TokenHolder {
                pod: "a/x".to_owned(),
                container: (*container).to_owned(),
                tokens: set(tokens),
            };
            Self {
                slices: Slices { containers: containers.to_vec() },
                holders: listed.iter().map(holder).collect(),
                started: Started {
                    pod: "a/x".to_owned(),
                    uid: "u".to_owned(),
                    slices: containers.to_vec(),
                    tokens: BTreeMap::new(),
                },
                init: BTreeMap::new(),
            }
        }

        fn whose(&self, tokens: &[&str]) -> Result<Whose, StartRefusal> {
            let (tokens, before) = (set(tokens), Some(&self.started));
            let (holders, slices, init) = (&self.holders, &self.slices, &self.init);
            Starting { pod: "a/x", tokens: &tokens, holders, slices, before, init }.whose()
        }

        /// Starts what these tokens are for, and says its name.
        fn start(&mut self, tokens: &[&str]) -> String {
            let Ok(Whose::This(one)) = self.whose(tokens) else { panic!("{:?}", self.whose(tokens)) };
            self.started.tokens.insert(one.name.clone(), set(tokens));
            one.name
        }

        fn heard(&mut self, name: &str, state: InitState) {
            self.init.insert(name.to_owned(), state);
        }
    }

    #[test]
    fn containers_that_are_listed_are_found_by_all_of_their_tokens() {
        let containers = [container("main", Stage::Main, &[1, 1]), container("side", Stage::Main, &[2])];
        let mut pod = Pod::new(&containers, &[("main", &["s0", "s1"]), ("side", &["s2"])]);
        assert_eq!(pod.start(&["s2"]), "side");
        assert_eq!(pod.start(&["s0", "s1"]), "main");
        assert_eq!(pod.start(&["s2"]), "side", "again");
        let refused = pod.whose(&["s1"]).unwrap_err();
        assert!(matches!(refused, StartRefusal::Count { slices: 0, tokens: 1, .. }), "{refused}");
    }

    #[test]
    fn an_init_container_with_other_tokens_is_found_although_kubelet_does_not_list_it() {
        let containers = [container("load", Stage::Init, &[1, 1]), container("main", Stage::Main, &[2])];
        let mut pod = Pod::new(&containers, &[("main", &["s0"])]);
        assert_eq!(pod.start(&["s0", "s1"]), "load");
        assert_eq!(pod.start(&["s0"]), "main");
        let refused = pod.whose(&["s0", "s1", "s2"]).unwrap_err();
        assert!(matches!(refused, StartRefusal::Count { tokens: 3, .. }), "{refused}");
    }

    #[test]
    fn one_token_serves_containers_with_different_parts_one_after_the_other() {
        let containers = [
            container("load", Stage::Init, &[9]),
            container("check", Stage::Init, &[5]),
            container("main", Stage::Main, &[2]),
        ];
        let mut pod = Pod::new(&containers, &[("main", &["s0"])]);
        assert_eq!(pod.start(&["s0"]), "load");
        // It ended at once, and the API server has not heard of it, or it failed: nobody knows yet.
        let Ok(Whose::Unsure { again: Some(again), refusal }) = pod.whose(&["s0"]) else { panic!("known") };
        assert_eq!(again.name, "load");
        assert!(refusal.to_string().contains("load"), "{refusal}");
        pod.heard("load", InitState::Running);
        assert!(matches!(pod.whose(&["s0"]), Ok(Whose::Unsure { again: None, .. })), "not while it runs");
        pod.heard("load", InitState::Done);
        assert_eq!(pod.start(&["s0"]), "check");
        pod.heard("check", InitState::NotDone);
        assert!(matches!(pod.whose(&["s0"]), Ok(Whose::Unsure { again: Some(_), .. })));
        pod.heard("check", InitState::Done);
        assert_eq!(pod.start(&["s0"]), "main");
        assert_eq!(pod.start(&["s0"]), "main", "again");
        // A new sandbox, of which the API server hears when its first container has failed.
        pod.heard("load", InitState::NotDone);
        let Ok(Whose::Unsure { again: Some(again), .. }) = pod.whose(&["s0"]) else { panic!("known") };
        assert_eq!(again.name, "load");
    }

    #[test]
    fn equal_parts_need_no_word_from_the_api_server() {
        let containers = [container("load", Stage::Init, &[2]), container("main", Stage::Main, &[2])];
        let mut pod = Pod::new(&containers, &[("main", &["s0"])]);
        assert_eq!(pod.start(&["s0"]), "load");
        assert_eq!(pod.start(&["s0"]), "main");
    }

    #[test]
    fn a_container_with_tokens_of_its_own_is_no_init_container() {
        // Kubelet gives the init container's token to the first, and another to the second.
        let containers = [
            container("load", Stage::Init, &[9]),
            container("a", Stage::Main, &[9]),
            container("b", Stage::Main, &[2]),
        ];
        let mut pod = Pod::new(&containers, &[("a", &["s0"]), ("b", &["s1"])]);
        assert_eq!(pod.start(&["s0"]), "load");
        assert_eq!(pod.start(&["s1"]), "b");
        assert_eq!(pod.start(&["s0"]), "a");
    }

    #[test]
    fn a_sidecars_tokens_serve_no_init_container_after_it() {
        let containers = [
            container("proxy", Stage::Sidecar, &[3]),
            container("load", Stage::Init, &[9]),
            container("main", Stage::Main, &[2]),
        ];
        let mut pod = Pod::new(&containers, &[("proxy", &["s0"]), ("main", &["s1"])]);
        assert_eq!(pod.start(&["s0"]), "proxy");
        pod.heard("proxy", InitState::Done);
        assert_eq!(pod.start(&["s0"]), "proxy", "again, before the next has started");
        assert_eq!(pod.start(&["s1"]), "load");
        pod.heard("load", InitState::Done);
        assert_eq!(pod.start(&["s1"]), "main");
    }

    #[test]
    fn a_lost_record_is_made_up_for_by_what_the_api_server_has_heard() {
        let containers = [container("load", Stage::Init, &[9]), container("main", Stage::Main, &[2])];
        let mut pod = Pod::new(&containers, &[("main", &["s0"])]);
        pod.heard("load", InitState::Done);
        assert_eq!(pod.start(&["s0"]), "main");
        let mut pod = Pod::new(&containers, &[("main", &["s0"])]);
        pod.heard("load", InitState::Running);
        assert!(
            matches!(pod.whose(&["s0"]), Ok(Whose::Unsure { again: None, .. })),
            "what runs does not start"
        );
        let only = [container("load", Stage::Init, &[9, 9]), container("main", Stage::Main, &[2])];
        let mut pod = Pod::new(&only, &[("main", &["s0"])]);
        pod.heard("load", InitState::Done);
        assert_eq!(pod.start(&["s0", "s1"]), "load", "in a new sandbox");
    }
}
