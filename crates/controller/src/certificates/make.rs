//! Makes certificates, and reads what stands in them.

use super::{AUTHORITY, CERTIFICATE, CertificateError, Pair, SLACK, Time, Validity};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;

/// What the scheduler is called in its certificate.
const CLIENT: &str = "carve-scheduler";

fn params(
    name: &str,
    names: &[String],
    now: Time,
    length: i64,
) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, name);
    let begins = now - SLACK;
    params.not_before = moment(begins);
    params.not_after = moment(begins + length);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// A time as certificates have it; one that no calendar has becomes the first of them.
fn moment(time: Time) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// An authority that vouches for itself.
pub(super) fn authority(now: Time) -> Result<Pair, CertificateError> {
    let key = KeyPair::generate()?;
    let mut params = params("carve controller", &[], now, AUTHORITY)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = false;
    Ok(Pair { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
}

fn issued(
    authority: &Pair,
    mut params: CertificateParams,
    usage: ExtendedKeyUsagePurpose,
) -> Result<Pair, CertificateError> {
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, KeyPair::from_pem(&authority.key)?)?;
    let key = KeyPair::generate()?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    Ok(Pair { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
}

/// What answers under these names.
pub(super) fn server(authority: &Pair, names: &[String], now: Time) -> Result<Pair, CertificateError> {
    // Common names are short; which names count stands elsewhere.
    let params = params("carve", names, now, CERTIFICATE)?;
    issued(authority, params, ExtendedKeyUsagePurpose::ServerAuth)
}

/// What a scheduler asks with.
pub(super) fn client(authority: &Pair, now: Time) -> Result<Pair, CertificateError> {
    issued(authority, params(CLIENT, &[], now, CERTIFICATE)?, ExtendedKeyUsagePurpose::ClientAuth)
}

fn read<T>(certificate: &str, told: impl Fn(&x509_parser::prelude::X509Certificate<'_>) -> T) -> Option<T> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).ok()?;
    Some(told(&pem.parse_x509().ok()?))
}

const UNREADABLE: CertificateError = CertificateError::Unreadable("a certificate");

/// From when and until when a certificate is good.
pub(super) fn validity(certificate: &str) -> Result<Validity, CertificateError> {
    let told = read(certificate, |one| {
        let validity = one.validity();
        Validity { begins: validity.not_before.timestamp(), ends: validity.not_after.timestamp() }
    });
    told.ok_or(UNREADABLE)
}

/// The names under which a certificate answers, in order.
pub(super) fn names(certificate: &str) -> Result<Vec<String>, CertificateError> {
    let told = read(certificate, |one| {
        let found = one.subject_alternative_name().ok().flatten();
        let names = found.iter().flat_map(|found| &found.value.general_names);
        let mut names: Vec<String> = names.filter_map(name).collect();
        names.sort();
        names
    });
    told.ok_or(UNREADABLE)
}

fn name(found: &GeneralName<'_>) -> Option<String> {
    match found {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(four) => Some(std::net::IpAddr::from(four).to_string()),
            Err(_) => <[u8; 16]>::try_from(*bytes).ok().map(|all| std::net::IpAddr::from(all).to_string()),
        },
        _ => None,
    }
}

/// Names in order, each once.
pub(super) fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names.dedup();
    names
}

/// Whether certificate and key read, and belong together.
pub(super) fn check(pair: &Pair) -> Result<(), CertificateError> {
    let key = KeyPair::from_pem(&pair.key)?;
    let belongs = read(&pair.certificate, |one| {
        one.public_key().subject_public_key.data.as_ref() == key.public_key_raw()
    });
    if belongs == Some(true) { Ok(()) } else { Err(UNREADABLE) }
}

/// The certificates of a text, one by one; what is none is left out.
pub(super) fn split(text: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let whole =
        text.split_inclusive(END).filter(|one| Pem::iter_from_buffer(one.as_bytes()).next().is_some());
    whole.filter(|one| one.ends_with(END)).map(|one| format!("{}\n", one.trim())).collect()
}
