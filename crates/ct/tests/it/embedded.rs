//! SCTs of certificates: removed, signed, embedded, found and verified again.

use crate::minting::{now_ms, pki};
use lucarne_ct::{
    Certificate, LogKey, PublicKey, Sct, SctError, SctList, SignedEntry, delivered_entry,
    embedded_entry, encode_sct_list, tbs_without_poison, tbs_without_scts,
};
use lucarne_mint::{Authority, Extension, KeyPair, KeyType, SignatureAlgorithm, Template, oid};

fn sct_extension(scts: &[Sct]) -> Extension {
    let list = encode_sct_list(scts).unwrap();
    Extension::new(oid::SCT_LIST, false, |der| der.octet_string(&list))
}

/// Returns a certificate with the SCTs of these logs. Its list has the index `place` among the
/// extensions.
fn with_scts(ca: &Authority, mut template: Template, logs: &[&LogKey], place: usize) -> Vec<u8> {
    let bare = ca.sign(&template).unwrap();
    let entry = embedded_entry(
        &Certificate::parse(&bare).unwrap(),
        &Certificate::parse(ca.cert_der()).unwrap(),
    );
    let scts = logs.iter().map(|log| log.sign_sct(now_ms(), &entry, 7));
    let scts: Vec<_> = scts.collect::<Result<_, _>>().unwrap();
    template.extensions.insert(place, sct_extension(&scts));
    ca.sign(&template).unwrap()
}

fn scts_of(certificate: &Certificate<'_>) -> Vec<Sct> {
    let list = certificate.embedded_scts().unwrap().unwrap();
    let scts: Result<Vec<_>, _> = SctList::parse(list).unwrap().iter().collect();
    scts.unwrap()
}

#[test]
fn what_a_log_signed_for_the_precertificate_verifies_for_the_certificate() {
    let logs = [1, 2].map(|n| LogKey::from_seed(&[n; 32]).unwrap());
    for ca in [&pki().p256, &pki().rsa] {
        let template = ca.leaf_template(&pki().leaf("embedded.example")).unwrap();
        for place in [0, 3, template.extensions.len()] {
            let mut precertificate = template.clone();
            let poison = lucarne_mint::extension::poison();
            precertificate.extensions.push(poison);
            let precertificate = ca.sign(&precertificate).unwrap();
            let precertificate = Certificate::parse(&precertificate).unwrap();

            let der = with_scts(ca, template.clone(), &[&logs[0], &logs[1]], place);
            let certificate = Certificate::parse(&der).unwrap();
            assert_eq!(
                tbs_without_scts(&certificate),
                tbs_without_poison(&precertificate)
            );
            let issuer = Certificate::parse(ca.cert_der()).unwrap();
            let entry = embedded_entry(&certificate, &issuer);
            for (sct, log) in scts_of(&certificate).iter().zip(&logs) {
                sct.verify(&log.public_key().unwrap(), &entry).unwrap();
                // The SCT is not valid for another issuer, nor in the TLS handshake.
                let root = Certificate::parse(pki().root.cert_der()).unwrap();
                for other in [
                    embedded_entry(&certificate, &root),
                    delivered_entry(&certificate),
                ] {
                    let refused = sct.verify(&log.public_key().unwrap(), &other);
                    assert!(matches!(refused, Err(SctError::Signature)));
                }
            }
        }
    }
}

#[test]
fn a_list_that_is_the_only_extension_takes_the_extensions_with_it() {
    let mut template = pki()
        .p256
        .leaf_template(&pki().leaf("only.example"))
        .unwrap();
    template.extensions.clear();
    let bare = pki().p256.sign(&template).unwrap();
    let der = with_scts(
        &pki().p256,
        template,
        &[&LogKey::from_seed(&[1; 32]).unwrap()],
        0,
    );
    let certificate = Certificate::parse(&der).unwrap();
    assert_eq!(
        tbs_without_scts(&certificate),
        Certificate::parse(&bare).unwrap().tbs()
    );
}

#[test]
fn certificates_without_a_list_and_with_a_broken_one() {
    let mut template = pki()
        .p256
        .leaf_template(&pki().leaf("none.example"))
        .unwrap();
    let der = pki().p256.sign(&template).unwrap();
    let certificate = Certificate::parse(&der).unwrap();
    assert_eq!(certificate.embedded_scts().unwrap(), None);
    assert_eq!(tbs_without_scts(&certificate), certificate.tbs());

    let broken = Extension::new(oid::SCT_LIST, false, |der| der.boolean(true));
    template.extensions.push(broken);
    let der = pki().p256.sign(&template).unwrap();
    let error = Certificate::parse(&der)
        .unwrap()
        .embedded_scts()
        .unwrap_err();
    assert_eq!(error.field, "SignedCertificateTimestampList");
}

/// RFC 6962, section 2.1.4 permits logs with RSA keys; some existed.
#[test]
fn logs_with_rsa_keys() {
    let log = KeyPair::generate(KeyType::Rsa(2048)).unwrap();
    let key = PublicKey::from_spki_of_any_log(log.spki()).unwrap();
    assert!(PublicKey::from_spki(log.spki()).is_err());
    let entry = SignedEntry::X509 {
        certificate: b"a certificate".as_slice().into(),
    };
    // version, signature type, timestamp, entry type, entry, no extensions
    let mut message = vec![0; 2 + 8 + 2];
    message.extend_from_slice(&[0, 0, 13]);
    message.extend_from_slice(b"a certificate");
    message.extend_from_slice(&[0, 0]);
    let signed = log.sign(SignatureAlgorithm::RsaSha256, &message).unwrap();
    let mut sct = Sct {
        log_id: key.log_id(),
        timestamp: 0,
        extensions: vec![],
        signature: [&[4, 1, 1, 0], &signed[..]].concat(),
    };
    sct.verify(&key, &entry).unwrap();
    sct.signature[1] = 3;
    assert!(sct.verify(&key, &entry).is_err());

    let other = KeyPair::generate(KeyType::EcdsaP384).unwrap();
    let error = PublicKey::from_spki_of_any_log(other.spki()).unwrap_err();
    assert!(error.to_string().contains("neither"), "{error}");
}
