//! Whose clients an MPS daemon serves and whose wait, read from its log.
//!
//! Unless it runs in multi-user mode, a daemon serves one user at a time: a client of another hangs in its first CUDA
//! call until the server has no clients left. Nothing but the log tells of it.

use std::collections::BTreeSet;
use std::fmt;

/// A user of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(pub u32);

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who is served and who waits, as far as the log tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Users {
    /// Whose server runs.
    pub served: Option<UserId>,
    /// Others who asked since and were put off. One of them may have given up; the log does not tell.
    pub waiting: BTreeSet<UserId>,
}

impl Users {
    /// Reads one more line.
    pub fn read(&mut self, line: &str) {
        let Some((_, text)) = line.split_once("] ") else { return };
        if let Some(user) = between(text, "Starting new server ", " for user ") {
            self.served = Some(user);
            self.waiting.remove(&user);
        } else if let Some(rest) = text.strip_prefix("NEW CLIENT ") {
            let Some((user, what)) =
                rest.split_once(" from user ").and_then(|(_, rest)| rest.split_once(": "))
            else {
                return;
            };
            let Ok(user) = user.parse().map(UserId) else { return };
            if what.starts_with("Server already exists") {
                self.waiting.remove(&user);
            } else if self.served != Some(user) {
                self.waiting.insert(user);
            }
        } else if text.starts_with("Server ") && text.contains(" exited with status ") {
            self.served = None;
        }
    }

    /// What to tell the people whose pods wait; nothing where none does.
    pub fn remark(&self) -> Option<String> {
        let served = self.served?;
        let waiting: Vec<String> = self.waiting.iter().map(UserId::to_string).collect();
        if waiting.is_empty() {
            return None;
        }
        Some(format!(
            "clients of user {} wait until those of user {served} have left: this MPS daemon serves one user at a time; \
             give the pods of one GPU the same runAsUser",
            waiting.join(", ")
        ))
    }
}

/// The number behind `second` in a text that starts with `first`.
fn between(text: &str, first: &str, second: &str) -> Option<UserId> {
    let (_, user) = text.strip_prefix(first)?.split_once(second)?;
    user.trim().parse().ok().map(UserId)
}

#[cfg(test)]
mod tests {
    use super::{UserId, Users};

    fn read(lines: &[&str]) -> Users {
        let mut users = Users::default();
        for line in lines {
            users.read(&format!("[2026-11-15 05:24:29.427 Control   428] {line}"));
        }
        users
    }

    /// The lines are those of a daemon on an H200 to which a client of user 1000 came while one of user 0 was there.
    #[test]
    fn another_user_waits() {
        let mut lines = vec![
            "NEW CLIENT 482 from user 0: Server is not ready, push client to pending list",
            "Starting new server 485 for user 0",
            "NEW SERVER 485: Ready",
            "NEW CLIENT 482 from user 0: Server already exists",
        ];
        let served = Users { served: Some(UserId(0)), ..Users::default() };
        assert_eq!(read(&lines), served);
        assert_eq!(served.remark(), None);

        lines.extend([
            "NEW CLIENT 519 from user 1000: Server is not ready, push client to pending list",
            "Try shutting down server 485, backoff is disabled",
            "Server 485 has 2 active worker threads. Server will not shutdown.",
        ]);
        let waits = read(&lines);
        assert_eq!((waits.served, waits.waiting.first()), (Some(UserId(0)), Some(&UserId(1000))));
        let remark = waits.remark().unwrap();
        assert!(remark.starts_with("clients of user 1000 wait until those of user 0"), "{remark}");

        lines.extend(["Server 485 exited with status 0", "Starting new server 600 for user 1000"]);
        assert_eq!(read(&lines), Users { served: Some(UserId(1000)), ..Users::default() });
    }

    /// In multi-user mode the second user is told that a server is there already.
    #[test]
    fn nobody_waits_for_a_server_of_all() {
        let users = read(&[
            "Starting new server 579 for user 0",
            "NEW CLIENT 590 from user 1000: Server is not ready, push client to pending list",
            "NEW CLIENT 590 from user 1000: Server already exists",
        ]);
        assert!(users.waiting.is_empty());
    }

    #[test]
    fn other_lines_say_nothing() {
        assert_eq!(
            read(&[
                "NEW CLIENT x",
                "NEW CLIENT 1 from user x: y",
                "NEW UI",
                "",
                "Starting new server 1 for user x"
            ]),
            Users::default()
        );
    }
}
