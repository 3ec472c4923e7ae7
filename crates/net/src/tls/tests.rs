//! Verifier tests with certificates from `openssl req -x509`, and weak signatures from
//! `openssl dgst -sign`.

use std::time::Duration;

use rustls::client::danger::ServerCertVerifier;
use rustls::internal::msgs::codec::Codec;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

use super::{Trust, Verifier, explain, weak_rsa};

fn certificate(name: &str) -> CertificateDer<'static> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tls/testdata");
    CertificateDer::from_pem_file(format!("{directory}/{name}.pem")).unwrap()
}

/// Returns the verdict on the certificate of a server named `host` if `trusted` is trusted.
fn verified(leaf: &str, trusted: &str, host: &str, now: UnixTime) -> Result<(), String> {
    let trust = Trust::none().with([certificate(trusted)]).unwrap();
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let verified =
        Verifier::trusting(trust).verify_server_cert(&certificate(leaf), &[], &name, &[], now);
    verified.map(drop).map_err(|error| explain(&error))
}

#[test]
fn a_certificate_that_is_trusted_itself_may_be_of_any_kind() {
    let now = UnixTime::now();
    for leaf in ["ca-true", "ca-false", "rsa-1024"] {
        for host in ["localhost", "127.0.0.1"] {
            assert_eq!(verified(leaf, leaf, host, now), Ok(()), "{leaf}");
        }
    }
}

#[test]
fn a_certificate_that_is_not_trusted_is_refused_in_words() {
    let now = UnixTime::now();
    let later = UnixTime::since_unix_epoch(Duration::from_secs(250 * 365 * 86_400));
    for (leaf, trusted, host, at, expected) in [
        ("ca-true", "ca-true", "other.test", now, "for other names"),
        ("ca-true", "ca-true", "localhost", later, "has expired"),
        (
            "client",
            "client",
            "localhost",
            now,
            "not meant for servers",
        ),
        ("ca-true", "ca", "localhost", now, "that of a CA (CA:TRUE)"),
        (
            "ca-false",
            "ca",
            "localhost",
            now,
            "a CA that is not trusted",
        ),
        ("v1", "v1", "localhost", now, "X.509 version 1"),
        (
            "issued-rsa-1024",
            "ca",
            "localhost",
            now,
            "an RSA key of 1024 bits",
        ),
    ] {
        let why = verified(leaf, trusted, host, at).unwrap_err();
        assert!(why.contains(expected), "{leaf}: {why}");
        assert!(!why.contains("Other("), "{why}");
    }
}

#[test]
fn any_certificate_means_any() {
    let name = ServerName::try_from("other.test").unwrap();
    let garbage = CertificateDer::from(b"garbage".to_vec());
    let others = ["v1", "client", "issued-rsa-1024"].map(certificate);
    for leaf in others.iter().chain([&garbage]) {
        let any = Verifier::accepting_any();
        let accepted = any.verify_server_cert(leaf, &[], &name, &[], UnixTime::now());
        assert!(accepted.is_ok());
    }
}

/// The certificate of a server is public, so its copy must not be accepted with a false signature
/// of any scheme.
#[test]
fn a_false_signature_of_any_scheme_proves_nothing() {
    let any = Verifier::accepting_any();
    for leaf in ["ca-true", "rsa-1024", "v1"] {
        for scheme in any.supported_verify_schemes() {
            let signed = [&u16::from(scheme).to_be_bytes()[..], &[0, 4], b"fake"].concat();
            let signed = DigitallySignedStruct::read_bytes(&signed).unwrap();
            let leaf_der = certificate(leaf);
            let tls12 = any.verify_tls12_signature(b"a handshake", &leaf_der, &signed);
            let tls13 = any.verify_tls13_signature(b"a handshake", &leaf_der, &signed);
            for verified in [tls12, tls13] {
                let why = verified.map(drop).map_err(|error| explain(&error));
                let expected = "the server did not prove that it has the key of its certificate";
                assert_eq!(why.unwrap_err(), expected, "{leaf}, {scheme:?}");
            }
        }
    }
}

/// Each line of the file has padding and hash, an RSAPublicKey, and its signature of `a handshake`.
#[test]
fn signatures_by_short_rsa_keys_are_verified() {
    let vectors = include_str!("testdata/weak-rsa.txt");
    for line in vectors.lines() {
        let [kind, key, signature] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let scheme = match kind {
            "pkcs1-sha256" => SignatureScheme::RSA_PKCS1_SHA256,
            "pkcs1-sha384" => SignatureScheme::RSA_PKCS1_SHA384,
            "pkcs1-sha512" => SignatureScheme::RSA_PKCS1_SHA512,
            "pss-sha256" => SignatureScheme::RSA_PSS_SHA256,
            "pss-sha384" => SignatureScheme::RSA_PSS_SHA384,
            _ => SignatureScheme::RSA_PSS_SHA512,
        };
        let algorithm = weak_rsa::algorithm(scheme).unwrap();
        let (key, mut signature) = (hex::decode(key).unwrap(), hex::decode(signature).unwrap());
        let verify = |message: &[u8], signature: &[u8]| {
            let verified = algorithm.verify_signature(&key, message, signature);
            verified.is_ok()
        };
        assert!(verify(b"a handshake", &signature), "{line}");
        assert!(!verify(b"another", &signature), "{line}");
        assert!(!verify(b"a handshake", &signature[1..]), "{line}");
        let last = signature.len() - 1;
        signature[last] ^= 1;
        assert!(!verify(b"a handshake", &signature), "{line}");
    }
    assert!(weak_rsa::algorithm(SignatureScheme::ED25519).is_none());
}
