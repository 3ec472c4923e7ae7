use std::io;

use lucarne_net::Verifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::super::mysql::MySql;
use super::super::postgres::Postgres;
use super::*;

/// Other clients accept the certificate of a CA that is named as trusted.
#[test]
fn the_certificate_of_an_authority_is_refused_in_words_that_are_true() {
    let der = |name: &str| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../net/src/tls/testdata");
        CertificateDer::from_pem_file(format!("{root}/{name}.pem")).unwrap()
    };
    // The verdict of webpki, which sqlx passes on.
    let verifier = Verifier::trusting(Trust::none().with([der("ca")]).unwrap());
    let name = ServerName::try_from("localhost").unwrap();
    let refused = verifier.verify_server_cert(&der("ca-true"), &[], &name, &[], UnixTime::now());
    let refused = io::Error::new(io::ErrorKind::InvalidData, refused.unwrap_err());
    let failure = Failure::Sql(sqlx::Error::Io(refused));
    let said = message::<Postgres>(&failure);
    assert!(said.contains("(CA:TRUE): the database driver"), "{said}");
    assert!(said.contains("CA:FALSE"), "{said}");
    assert!(!said.contains("not itself trusted"), "{said}");
}

#[test]
fn a_certificate_that_is_not_trusted_is_not_waited_for() {
    let lost = io::Error::new(io::ErrorKind::InvalidData, "cut off");
    let untrusted = rustls::CertificateError::UnknownIssuer;
    let untrusted = rustls::Error::InvalidCertificate(untrusted);
    let untrusted = io::Error::new(io::ErrorKind::InvalidData, untrusted);
    let cases = [
        (sqlx::Error::Io(untrusted), false),
        (
            sqlx::Error::Tls("server does not support TLS".into()),
            false,
        ),
        (sqlx::Error::Io(lost), true),
    ];
    for (error, waits) in cases {
        let failure = Failure::Sql(error);
        assert_eq!(passing::<MySql>(&failure), waits, "{failure:?}");
        assert_eq!(passing::<Postgres>(&failure), waits, "{failure:?}");
        let said = message::<MySql>(&failure);
        assert_eq!(said.contains("ssl-ca"), !waits, "{said}");
    }
}
