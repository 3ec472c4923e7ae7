//! Precertificate tests from the test suites of other logs, with certificates generated at each
//! run.

use crate::minting::*;
use lucarne_ct::{
    Certificate, Code, EntryKind, Fingerprint, Policy, SignedEntry, tbs_without_poison,
    tbs_without_poison_for,
};
use lucarne_mint::{Authority, LeafOptions, Oid, Poison, Template, Time, TimeForm, extension, oid};

#[test]
fn poisons_wherever_they_stand() {
    for (poison, code) in [
        (Some(Poison::First), None),
        (Some(Poison::Middle), None),
        (Some(Poison::Last), None),
        (Some(Poison::NonCritical), Some(Code::InvalidPoison)),
        (Some(Poison::NonNull), Some(Code::InvalidPoison)),
        (Some(Poison::Twice), Some(Code::InvalidPoison)),
        (None, Some(Code::CertificateOnAddPreChain)),
    ] {
        let options = LeafOptions {
            poison,
            ..pki().leaf("example.test")
        };
        let leaf = pki().rsa.issue(&options).unwrap();
        let submission = [&leaf[..], pki().rsa.cert_der()];
        match code {
            None => drop(add_pre_chain(submission).unwrap()),
            Some(code) => assert_eq!(refused(add_pre_chain(submission)), (code, Some(0))),
        }
        let x509 = add_chain(submission);
        match poison {
            None => drop(x509.unwrap()),
            Some(_) => assert_eq!(refused(x509), (Code::PrecertificateOnAddChain, Some(0))),
        }
    }
}

/// Returns the TBSCertificate that an authority would sign without the poison.
fn without_poison(template: &Template) -> Vec<u8> {
    let mut template = template.clone();
    template.remove_extension(&oid::POISON);
    template.tbs()
}

#[test]
fn the_tbs_is_the_one_without_poison() {
    for poison in [Poison::First, Poison::Middle, Poison::Last] {
        for alone in [false, true] {
            let options = LeafOptions {
                poison: Some(poison),
                not_after: Time::from_unix(1_800_000_000),
                ..pki().leaf("example.test")
            };
            let mut template = pki().rsa.leaf_template(&options).unwrap();
            if alone {
                template
                    .extensions
                    .retain(|extension| extension.oid == oid::POISON);
            }
            // A GeneralizedTime before 2050 is not converted.
            template.not_before = template.not_before.with_form(TimeForm::Generalized);
            let der = pki().rsa.sign(&template).unwrap();
            let certificate = Certificate::parse(&der).unwrap();
            assert_eq!(tbs_without_poison(&certificate), without_poison(&template));
            if alone {
                continue;
            }
            let entry = add_pre_chain([&der[..], pki().rsa.cert_der()]).unwrap();
            let (issuer_key_hash, tbs) = precertificate(&entry.signed);
            assert_eq!(*tbs, without_poison(&template));
            assert_eq!(*issuer_key_hash, Fingerprint::of(pki().rsa.key().spki()).0);
            assert_eq!(entry.precertificate.as_deref(), Some(&der[..]));
        }
    }
}

/// Returns the hash of the issuer's key, and the TBSCertificate.
fn precertificate(signed: &SignedEntry) -> (&[u8; 32], &[u8]) {
    match signed {
        SignedEntry::Precert {
            issuer_key_hash,
            tbs,
        } => (issuer_key_hash, tbs),
        SignedEntry::X509 { .. } => panic!("a precertificate"),
    }
}

/// A CA, a Precertificate Signing Certificate below it, and a template of the latter's leaf.
struct Presigned {
    ca: Authority,
    preissuer: Authority,
    template: Template,
}

impl Presigned {
    /// Creates all three. `in_preissuer` and `in_leaf` state whether the signing certificate and
    /// the leaf have an authorityKeyIdentifier.
    fn new(below_root: bool, in_preissuer: bool, in_leaf: bool) -> Self {
        let ca = if below_root {
            pki().root.clone()
        } else {
            pki().p384.clone()
        };
        let preissuer = odd_ca(&ca, "Precert signing", |template| {
            let purpose = extension::extended_key_usage(&[oid::PRECERT_SIGNING]);
            template.extensions.insert(0, purpose);
            if !in_preissuer {
                template.remove_extension(&oid::AUTHORITY_KEY_ID);
            }
        });
        let options = pki().leaf("example.test").precertificate();
        let mut template = preissuer.leaf_template(&options).unwrap();
        if !in_leaf {
            template.remove_extension(&oid::AUTHORITY_KEY_ID);
        }
        Self {
            ca,
            preissuer,
            template,
        }
    }

    fn leaf(&self) -> Vec<u8> {
        self.preissuer.sign(&self.template).unwrap()
    }

    /// Returns the TBSCertificate that the CA itself would sign: its name, its key identifier, no
    /// poison.
    fn expected(&self, in_preissuer: bool) -> Vec<u8> {
        let mut template = self.template.clone();
        template.issuer = self.ca.name().clone();
        let identifier = extension::authority_key_id(self.ca.key().id());
        match (in_preissuer, template.extension_mut(&oid::AUTHORITY_KEY_ID)) {
            (true, Some(extension)) => *extension = identifier,
            (true, None) => template.extensions.push(identifier),
            (false, _) => template.remove_extension(&oid::AUTHORITY_KEY_ID),
        }
        without_poison(&template)
    }
}

#[test]
fn precertificate_signing_certificates() {
    for below_root in [false, true] {
        for (in_preissuer, in_leaf) in [(true, true), (false, false), (false, true), (true, false)]
        {
            let presigned = Presigned::new(below_root, in_preissuer, in_leaf);
            let leaf = presigned.leaf();
            let with = presigned
                .preissuer
                .full_chain(leaf.clone())
                .into_certificates();
            let without = presigned.preissuer.chain(leaf).into_certificates();
            let log = usual();
            let entry = submit(&log, EntryKind::Precert, &with).unwrap();
            let (issuer_key_hash, tbs) = precertificate(&entry.signed);
            assert_eq!(*tbs, presigned.expected(in_preissuer));
            assert_eq!(
                *issuer_key_hash,
                Fingerprint::of(presigned.ca.key().spki()).0
            );
            assert_eq!(entry.issuers.len(), with.len() - 1);
            // The second time each tail is cached.
            for chain in [&without, &with, &without] {
                let again = submit(&log, EntryKind::Precert, chain).unwrap();
                assert_eq!(again.signed, entry.signed);
                assert_eq!(again.issuers, entry.issuers);
            }
            let preissuer = Certificate::parse(&with[1]).unwrap();
            let certificate = Certificate::parse(&with[0]).unwrap();
            assert_eq!(tbs_without_poison_for(&certificate, &preissuer), *tbs);
        }
    }
}

#[test]
fn what_is_no_precertificate_signing_certificate() {
    let purpose = |purposes: &[Oid]| extension::extended_key_usage(purposes);
    // Without the purpose, the certificate is an ordinary intermediate, and the entry has its key.
    for extensions in [vec![], vec![purpose(&[oid::SERVER_AUTH])]] {
        let ca = odd_ca(&pki().root, "Plain", |template| {
            template.extensions.extend(extensions)
        });
        let leaf = ca
            .issue(&pki().leaf("example.test").precertificate())
            .unwrap();
        let entry = add_pre_chain([&leaf[..], ca.cert_der()]).unwrap();
        let (issuer_key_hash, tbs) = precertificate(&entry.signed);
        assert_eq!(*issuer_key_hash, Fingerprint::of(ca.key().spki()).0);
        assert_eq!(
            *tbs,
            tbs_without_poison(&Certificate::parse(&leaf).unwrap())
        );
    }
    let no_ca = odd_ca(&pki().root, "No CA", |template| {
        template.extensions.push(purpose(&[oid::PRECERT_SIGNING]));
        template.remove_extension(&oid::BASIC_CONSTRAINTS);
    });
    let leaf = no_ca
        .issue(&pki().leaf("example.test").precertificate())
        .unwrap();
    let found = refused(add_pre_chain([&leaf[..], no_ca.cert_der()]));
    assert_eq!(found, (Code::NotACertificateAuthority, Some(1)));
    // If the signing certificate is a root, the issuer of the final certificate is unknown.
    let presigned = Presigned::new(true, true, true);
    let log = log(&[presigned.preissuer.cert_der()], Policy::default());
    let found = refused(submit(&log, EntryKind::Precert, [&presigned.leaf()]));
    assert_eq!(found, (Code::MissingIssuer, Some(0)));
}

#[test]
fn precertificates_signed_by_somebody_else() {
    let leaf = pki()
        .rsa
        .issue(&pki().leaf("example.test").precertificate())
        .unwrap();
    let found = refused(add_pre_chain([&leaf[..], pki().p256.cert_der()]));
    assert_eq!(found, (Code::WrongOrder, Some(0)));
    let found = refused(add_pre_chain([&leaf]));
    assert_eq!(found, (Code::UnknownRoot, Some(0)));
}

#[test]
fn final_certificates_of_a_precertificate_signing_certificate_can_be_logged() {
    let preissuer = Presigned::new(true, true, true).preissuer;
    let leaf = leaf(&preissuer);
    add_chain([&leaf[..], preissuer.cert_der()]).unwrap();
}
