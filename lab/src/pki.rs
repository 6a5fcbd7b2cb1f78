//! Who is who in the lab: tokens, the key that signs service accounts, and a kubeconfig for each.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PublicKeyData};
use std::fs;
use std::path::Path;

/// User, token, group of everybody who talks to the API server.
const PEOPLE: &[(&str, &str, &str)] = &[
    ("admin", "admin", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
];

/// Where the API server listens, inside the lab: the service address itself, so that nothing has to route it.
pub(crate) const SERVER: &str = "https://10.96.0.1:443";

/// Writes tokens, keys and kubeconfigs of a lab with these nodes into its folder.
pub(crate) fn write(folder: &Path, nodes: &[String]) -> Result<()> {
    let pki = folder.join("pki");
    fs::create_dir_all(&pki)?;
    let key = KeyPair::generate()?;
    fs::write(pki.join("service-account.key"), key.serialize_pem())?;
    fs::write(pki.join("service-account.pub"), public_pem(&key))?;
    let mut tokens = String::new();
    for (name, user, group) in PEOPLE {
        tokens.push_str(&format!("{name}-token,{user},{name},{group}\n"));
        fs::write(folder.join(format!("{name}.kubeconfig")), kubeconfig(folder, &format!("{name}-token")))?;
    }
    for node in nodes {
        tokens.push_str(&format!("{node}-token,system:node:{node},{node},system:nodes\n"));
        fs::write(folder.join(format!("{node}.kubeconfig")), kubeconfig(folder, &format!("{node}-token")))?;
    }
    fs::write(pki.join("tokens.csv"), tokens)?;
    Ok(())
}

fn public_pem(key: &KeyPair) -> String {
    let encoded = base64(&key.subject_public_key_info());
    let lines: Vec<String> =
        encoded.as_bytes().chunks(64).map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
}

/// Bytes as text, padded.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The API server's certificate signs itself and is its own authority.
fn kubeconfig(folder: &Path, token: &str) -> String {
    let authority = folder.join("pki/apiserver.crt");
    format!(
        "apiVersion: v1
kind: Config
current-context: lab
contexts: [{{name: lab, context: {{cluster: lab, user: lab}}}}]
users: [{{name: lab, user: {{token: {token}}}}}]
clusters: [{{name: lab, cluster: {{server: \"{SERVER}\", certificate-authority: {}}}}}]
",
        authority.display()
    )
}
