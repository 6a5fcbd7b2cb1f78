//! Years of certificates, day by day.

use super::{AUTHORITY, Certificates, DAY, NOTICE, Time, make};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const START: Time = 1_800_000_000;

fn names() -> Vec<String> {
    ["carve-controller.carve.svc", "10.0.0.7"].map(str::to_owned).to_vec()
}

fn der(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().expect("PEM")
}

fn roots(bundle: &str) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    der(bundle).into_iter().for_each(|one| roots.add(one).expect("an authority"));
    Arc::new(roots)
}

/// Whether somebody who believes a bundle believes the certificate, as a TLS library decides it.
fn server_is_believed(certificates: &Certificates, bundle: &str, name: &str, now: Time) -> bool {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots(bundle), provider)
        .build()
        .expect("a verifier");
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).expect("later")));
    let leaf = &der(&certificates.server.certificate)[0];
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    rustls::client::danger::ServerCertVerifier::verify_server_cert(&*verifier, leaf, &[], &name, &[], now)
        .is_ok()
}

fn client_is_believed(client: &str, bundle: &str, now: Time) -> bool {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(roots(bundle), provider)
        .build()
        .expect("a verifier");
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).expect("later")));
    verifier.verify_client_cert(&der(client)[0], &[], now).is_ok()
}

#[test]
fn through_ten_years_nobody_who_was_told_yesterday_is_turned_away() {
    let mut now = START;
    let mut certificates = Certificates::new(&names(), now).expect("certificates");
    // What others were told, up to a day ago.
    let mut told = VecDeque::from([certificates.clone()]);
    let (mut servers, mut authorities) = (1, 1);
    while now < START + 10 * 365 * DAY {
        now += DAY / 2;
        if let Some(new) = certificates.renewed(&names(), now).expect("certificates") {
            servers += usize::from(new.server != certificates.server);
            authorities += usize::from(new.authority != certificates.authority);
            certificates = new;
        }
        assert_eq!(certificates.renewed(&names(), now).expect("certificates"), None, "it is settled");
        for earlier in &told {
            for name in names() {
                assert!(server_is_believed(&certificates, &earlier.bundle(), &name, now), "{name} at {now}");
            }
            let client = &earlier.client.certificate;
            assert!(client_is_believed(client, &certificates.bundle(), now), "an earlier client at {now}");
        }
        told.push_back(certificates.clone());
        if told.len() > 2 {
            told.pop_front();
        }
    }
    assert!((5..=7).contains(&authorities), "{authorities}");
    assert!((55..=75).contains(&servers), "{servers}");
}

#[test]
fn a_server_is_no_client_and_a_stranger_is_neither() {
    let one = Certificates::new(&names(), START).expect("certificates");
    let other = Certificates::new(&names(), START).expect("certificates");
    assert!(client_is_believed(&one.client.certificate, &one.bundle(), START));
    assert!(!client_is_believed(&one.server.certificate, &one.bundle(), START), "made for answering alone");
    assert!(!client_is_believed(&other.client.certificate, &one.bundle(), START));
    assert!(!server_is_believed(&one, &one.bundle(), "somebody.else.svc", START));
    assert!(!server_is_believed(&other, &one.bundle(), "10.0.0.7", START));
}

#[test]
fn a_clock_that_jumps_ends_in_certificates_that_are_good() {
    let mut certificates = Certificates::new(&names(), START).expect("certificates");
    for jump in [0, 40 * 365 * DAY, -DAY, -3 * 365 * DAY, 2 * AUTHORITY, NOTICE, 0, 0] {
        let now = START + jump;
        // More than one step may be due at once.
        while let Some(new) = certificates.renewed(&names(), now).expect("certificates") {
            certificates = new;
        }
        assert!(server_is_believed(&certificates, &certificates.bundle(), "10.0.0.7", now), "after {jump}");
        assert!(client_is_believed(&certificates.client.certificate, &certificates.bundle(), now));
    }
}

#[test]
fn another_name_needs_another_certificate_of_the_same_authority() {
    let one = Certificates::new(&names(), START).expect("certificates");
    let more = [names(), vec!["carve.example".to_owned()]].concat();
    let two = one.renewed(&more, START).expect("certificates").expect("something new");
    assert_eq!(two.authority, one.authority);
    assert!(server_is_believed(&two, &one.bundle(), "carve.example", START));
}

#[test]
fn a_secret_gives_back_what_was_put_into_it() {
    let mut certificates = Certificates::new(&names(), START).expect("certificates");
    for day in [0, 740, 742, 800, 1500, 2900] {
        while let Some(new) = certificates.renewed(&names(), START + day * DAY).expect("certificates") {
            certificates = new;
        }
        let secret = certificates.to_secret();
        let data: BTreeMap<String, String> =
            secret.into_iter().map(|(key, text)| (key.to_owned(), text)).collect();
        assert_eq!(Certificates::from_secret(&data).expect("certificates"), certificates, "day {day}");
        for key in ["authority.crt", "authority.key", "tls.crt", "tls.key", "client.key"] {
            let mut broken = data.clone();
            broken.insert(key.to_owned(), data["client.crt"].clone() + "x");
            let error = Certificates::from_secret(&broken).expect_err(key).to_string();
            assert!(error.contains("no certificate"), "{key}: {error}");
            broken.remove(key);
            assert!(Certificates::from_secret(&broken).expect_err(key).to_string().contains("missing"));
        }
        let for_scheduler = certificates.to_client_secret();
        assert!(for_scheduler.values().all(|text| !text.contains(certificates.authority.key.trim())));
    }
    assert!(make::split("no certificate").is_empty());
}
