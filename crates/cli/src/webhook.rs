//! `carve webhook`: refuses claims with configs that could never be prepared.

use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::service::serve;
use carve_webhook::WebhookOptions;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What was typed after `carve webhook`.
#[derive(Debug, Args)]
pub(crate) struct WebhookArgs {
    /// Where /review and /healthz are served, over HTTPS
    #[arg(long, env = "CARVE_WEBHOOK_LISTEN", default_value = "0.0.0.0:8443", value_name = "ADDRESS")]
    listen: String,
    /// Certificate with its chain (PEM); read again when it changes
    #[arg(long, env = "CARVE_TLS_CERT", value_name = "FILE")]
    tls_cert: PathBuf,
    /// Key of the certificate (PEM)
    #[arg(long, env = "CARVE_TLS_KEY", value_name = "FILE")]
    tls_key: PathBuf,
    /// Driver whose configs are looked at; may be given several times
    #[arg(
        long = "driver-name",
        env = "CARVE_DRIVER_NAMES",
        value_delimiter = ',',
        default_value = "gpu.carve.dev",
        value_name = "DRIVER"
    )]
    drivers: Vec<String>,
}

/// Runs the webhook until it is told to end.
pub(crate) fn webhook(args: &WebhookArgs) -> Outcome {
    let options = WebhookOptions {
        listen: address("--listen", &args.listen)?,
        certificate: args.tls_cert.clone(),
        key: args.tls_key.clone(),
        drivers: args.drivers.clone(),
    };
    serve(|stop| async {
        carve_webhook::run(options, |_| {}, stop).await.map_err(|error| Failure::of(&error))
    })
}

/// An address; a port alone means every address of this machine.
pub(crate) fn address(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse().map_err(|_| Failure {
        code: UNREADABLE,
        ..Failure::new(format!("{flag} '{text}' is no address; write for example :8443"))
    })
}

#[cfg(test)]
mod tests {
    use super::{WebhookArgs, address};
    use clap::{Args, Command, FromArgMatches};

    fn parsed(words: &[&str]) -> WebhookArgs {
        let command = WebhookArgs::augment_args(Command::new("webhook"));
        let words = [&["webhook", "--tls-cert", "c", "--tls-key", "k"], words].concat();
        WebhookArgs::from_arg_matches(&command.get_matches_from(words)).expect("arguments")
    }

    #[test]
    fn drivers_can_be_named_and_one_is_known() {
        assert_eq!(parsed(&[]).drivers, ["gpu.carve.dev"]);
        let named = parsed(&["--driver-name", "gpu.nvidia.com", "--driver-name", "gpu.carve.dev"]);
        assert_eq!(named.drivers, ["gpu.nvidia.com", "gpu.carve.dev"]);
    }

    #[test]
    fn an_address_may_be_a_port() {
        assert_eq!(address("--listen", ":8443").expect("an address").to_string(), "0.0.0.0:8443");
        assert_eq!(address("--listen", "[::1]:1").expect("an address").to_string(), "[::1]:1");
        let failure = address("--listen", "everywhere").expect_err("no address");
        assert_eq!(failure.message, "--listen 'everywhere' is no address; write for example :8443");
    }
}
