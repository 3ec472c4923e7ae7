//! Chain tests from the test suites of other logs. The certificates are generated at each run, so
//! that no corpus is needed.

use crate::minting::*;
use lucarne_ct::{Chain, Code, EntryKind, Fingerprint, Policy, Require, SignedEntry};
use lucarne_mint::{
    Authority, CaOptions, Der, Extension, KeyType, LeafOptions, Lengths, Name, Oid, Template, Time,
    Version, der, extension, oid,
};

#[test]
fn usual_chains_with_and_without_root_are_one_entry() {
    for issuer in [&pki().rsa, &pki().p256, &pki().p384, &pki().root] {
        let leaf = leaf(issuer);
        let log = usual();
        let without = issuer.chain(leaf.clone()).into_certificates();
        let with = issuer.full_chain(leaf.clone()).into_certificates();
        for _ in 0..2 {
            let a = submit(&log, EntryKind::X509, &without).unwrap();
            let b = submit(&log, EntryKind::X509, &with).unwrap();
            assert_eq!(a.identity, b.identity);
            assert_eq!(a.issuers, b.issuers);
            let issuers: Vec<_> = a.issuers.iter().map(|issuer| &issuer.der[..]).collect();
            assert_eq!(issuers, with[1..]);
            assert_eq!(a.issuers[0].fingerprint, Fingerprint::of(&with[1]));
            assert_eq!(
                a.signed,
                SignedEntry::X509 {
                    certificate: leaf.clone().into()
                }
            );
            assert_eq!(a.precertificate, None);
        }
    }
}

#[test]
fn broken_chains() {
    let (root, ca, other) = (pki().root.cert_der(), &pki().rsa, &pki().p256);
    let leaf = leaf(ca);
    let ca_der = ca.cert_der();
    let stranger = Authority::root(&CaOptions::named("Stranger", KeyType::EcdsaP256)).unwrap();
    for (parts, code, index) in [
        (vec![&leaf[..]], Code::UnknownRoot, 0),
        (vec![&leaf, root], Code::WrongOrder, 0),
        (vec![ca_der, &leaf], Code::WrongOrder, 0),
        (vec![&leaf, root, ca_der], Code::WrongOrder, 0),
        (vec![&leaf, ca_der, other.cert_der()], Code::WrongOrder, 1),
        (vec![&leaf, other.cert_der(), ca_der], Code::WrongOrder, 0),
        (
            vec![&leaf, ca_der, root, stranger.cert_der()],
            Code::WrongOrder,
            2,
        ),
        (
            vec![&leaf, ca_der, root, root],
            Code::DuplicateCertificate,
            3,
        ),
        (vec![&leaf, ca_der, ca_der], Code::DuplicateCertificate, 2),
        (vec![&leaf, &leaf, ca_der], Code::DuplicateCertificate, 1),
        // The repeated certificates need not be adjacent.
        (
            vec![&leaf, ca_der, root, ca_der],
            Code::DuplicateCertificate,
            3,
        ),
        (
            vec![&leaf, ca_der, root, &leaf],
            Code::DuplicateCertificate,
            3,
        ),
        (
            vec![&leaf, ca_der, b"\x30\x03\x02\x01\x01"],
            Code::InvalidCertificate,
            2,
        ),
        (vec![b"", ca_der], Code::InvalidCertificate, 0),
    ] {
        assert_eq!(refused(add_chain(&parts)), (code, Some(index)));
    }
    let strange = stranger.issue(&pki().leaf("example.test")).unwrap();
    let found = refused(add_chain([&strange[..], stranger.cert_der()]));
    assert_eq!(found, (Code::UnknownRoot, Some(1)));
}

#[test]
fn misordered_chain_of_four() {
    let one = odd_ca(&pki().root, "One", |_| ());
    let two = odd_ca(&one, "Two", |_| ());
    let leaf = leaf(&two);
    let (one, two, root) = (one.cert_der(), two.cert_der(), pki().root.cert_der());
    add_chain([&leaf[..], two, one, root]).unwrap();
    let found = refused(add_chain([&leaf[..], one, two, root]));
    assert_eq!(found, (Code::WrongOrder, Some(0)));
    let found = refused(add_chain([&leaf[..], two, root, one]));
    assert_eq!(found, (Code::WrongOrder, Some(1)));
}

#[test]
fn signatures_that_do_not_verify() {
    let (ca, root) = (&pki().rsa, pki().root.cert_der());
    let log = usual();
    let good = leaf(ca);
    submit(&log, EntryKind::X509, [&good[..], ca.cert_der()]).unwrap();
    let flipped = |der: &[u8]| {
        let mut der = der.to_vec();
        *der.last_mut().unwrap() ^= 1;
        der
    };
    // The tail is cached by now, but the leaf is still verified.
    let found = refused(submit(
        &log,
        EntryKind::X509,
        [&flipped(&good)[..], ca.cert_der()],
    ));
    assert_eq!(found, (Code::InvalidSignature, Some(0)));
    let found = refused(submit(
        &log,
        EntryKind::X509,
        [&good[..], &flipped(ca.cert_der()), root],
    ));
    assert_eq!(found, (Code::InvalidSignature, Some(1)));
    // The last certificate has the key of the accepted root, but another signature.
    let found = refused(submit(
        &log,
        EntryKind::X509,
        [&good[..], ca.cert_der(), &flipped(root)],
    ));
    assert_eq!(found, (Code::InvalidSignature, Some(2)));
    // Signed by another CA than the named issuer.
    let signed_by_other = pki().p256.sign(&Template {
        issuer: ca.name().clone(),
        ..pki()
            .p256
            .leaf_template(&pki().leaf("example.test"))
            .unwrap()
    });
    let found = refused(add_chain([&signed_by_other.unwrap()[..], ca.cert_der()]));
    assert_eq!(found, (Code::UnsupportedAlgorithm, Some(0)));
}

#[test]
fn algorithms_refused() {
    let algorithm = |last| {
        lucarne_mint::algorithm(
            &format!("1.2.840.113549.1.1.{last}").parse::<Oid>().unwrap(),
            Der::null,
        )
    };
    for (inner, outer, code) in [
        (11, 13, Code::AlgorithmMismatch),
        (2, 2, Code::WeakAlgorithm),
        (4, 4, Code::WeakAlgorithm),
        (99, 99, Code::UnsupportedAlgorithm),
        // Declared as SHA-512, signed with SHA-256.
        (13, 13, Code::InvalidSignature),
    ] {
        let odd = |template: &mut Template| {
            template.inner_algorithm = Some(algorithm(inner));
            template.outer_algorithm = Some(algorithm(outer));
        };
        let bad_leaf = odd_leaf(&pki().rsa, odd);
        let found = refused(add_chain([&bad_leaf[..], pki().rsa.cert_der()]));
        assert_eq!(found, (code, Some(0)));
        let bad_ca = odd_ca(&pki().root, "Odd", odd);
        let found = refused(add_chain([&leaf(&bad_ca)[..], bad_ca.cert_der()]));
        assert_eq!(found, (code, Some(1)));
    }
}

#[test]
fn intermediates_that_are_no_authorities() {
    let log = usual();
    for change in [
        (|template| template.version = Version::V1) as fn(&mut Template),
        |template| {
            template.version = Version::V1;
            template.extensions.clear();
        },
        |template| template.remove_extension(&oid::BASIC_CONSTRAINTS),
        |template| template.extensions[1] = extension::end_entity(),
    ] {
        let ca = odd_ca(&pki().root, "No authority", change);
        let submission = [&leaf(&ca)[..], ca.cert_der()];
        let found = refused(submit(&log, EntryKind::X509, submission));
        assert_eq!(found, (Code::NotACertificateAuthority, Some(1)));
        // An accepted root need not be a CA certificate.
        let roots = [pki().root.cert_der(), ca.cert_der()];
        submit(
            &crate::minting::log(&roots, Policy::default()),
            EntryKind::X509,
            submission,
        )
        .unwrap();
    }
}

#[test]
fn long_chains() {
    let below = |count: usize, same_name: bool| {
        let mut cas = vec![pki().root.clone()];
        for number in 0..count {
            let name = if same_name {
                "Same".to_owned()
            } else {
                format!("CA {number}")
            };
            cas.push(odd_ca(cas.last().unwrap(), &name, |_| ()));
        }
        let mut chain = vec![leaf(cas.last().unwrap())];
        chain.extend(cas.iter().rev().map(|ca| ca.cert_der().to_vec()));
        chain
    };
    assert_eq!(add_chain(below(14, false)).unwrap().issuers.len(), 15);
    assert_eq!(add_chain(below(14, true)).unwrap().issuers.len(), 15);
    assert_eq!(
        refused(add_chain(below(99, true))),
        (Code::ChainTooLong, None)
    );
}

#[test]
fn what_a_log_does_not_judge() {
    let unknown = Extension::new("1.2.3.4".parse::<Oid>().unwrap(), true, Der::null);
    let constraints = [
        extension::permitted_dns(&["elsewhere.test"]),
        Extension::new("2.5.29.36".parse::<Oid>().unwrap(), true, |der| {
            der.sequence(|der| der.context_primitive(0, &[0]));
        }),
        Extension::new("2.5.29.30".parse::<Oid>().unwrap(), true, Der::null),
        unknown.clone(),
    ];
    for constraint in constraints {
        let ca = odd_ca(&pki().root, "Odd", |template| {
            template.extensions.push(constraint)
        });
        add_chain([&leaf(&ca)[..], ca.cert_der()]).unwrap();
    }
    let changes: [fn(&mut Template); 8] = [
        |template| template.remove_extension(&oid::SUBJECT_KEY_ID),
        |template| template.remove_extension(&oid::AUTHORITY_KEY_ID),
        |template| {
            template
                .extensions
                .push(extension::authority_key_id(&[1; 20]))
        },
        |template| {
            template.extensions.push(Extension::new(
                "1.2.3".parse::<Oid>().unwrap(),
                true,
                Der::null,
            ))
        },
        |template| template.serial = vec![0x80, 0x01],
        |template| template.serial = vec![],
        |template| template.subject = Name::empty(),
        |template| template.lengths = Lengths::Long,
    ];
    for change in changes {
        let odd = odd_leaf(&pki().p256, change);
        add_chain([&odd[..], pki().p256.cert_der()]).unwrap();
    }
}

/// The constraints of X.509 on issuers are for verifiers. The log only checks that each issuer is a
/// CA; of repeated extensions, the first counts.
#[test]
fn constraints_of_issuers_are_recorded_and_not_judged() {
    let no_cert_sign = odd_ca(&pki().root, "No keyCertSign", |template| {
        template.remove_extension(&oid::KEY_USAGE);
        template.extensions.push(extension::leaf_key_usage(true));
    });
    add_chain([&leaf(&no_cert_sign)[..], no_cert_sign.cert_der()]).unwrap();
    let repeated = odd_ca(&pki().root, "Repeated", |template| {
        template.extensions.push(extension::end_entity());
    });
    add_chain([&leaf(&repeated)[..], repeated.cert_der()]).unwrap();
    let short = odd_ca(&pki().root, "Short", |template| {
        template.remove_extension(&oid::BASIC_CONSTRAINTS);
        template.extensions.push(extension::ca(Some(0)));
    });
    let below = odd_ca(&short, "Below", |_| {});
    add_chain([&leaf(&below)[..], below.cert_der(), short.cert_der()]).unwrap();
}

#[test]
fn names_in_another_kind_of_string_match_and_in_another_case_do_not() {
    let named = |name: &[u8], string: u8| {
        Name::from_der(&Der::build(|der| {
            der.sequence(|der| {
                der.set(|der| {
                    der.sequence(|der| {
                        der.oid(&"2.5.4.3".parse::<Oid>().unwrap());
                        der.put(string, name);
                    });
                });
            });
        }))
    };
    let ca = odd_ca(&pki().root, "", |template| {
        template.subject = named(b"Mixed Case CA", der::tag::PRINTABLE_STRING);
    });
    for (name, string, accepted) in [
        (&b"Mixed Case CA"[..], der::tag::UTF8_STRING, true),
        (b"Mixed  Case CA", der::tag::UTF8_STRING, true),
        (b"mixed case ca", der::tag::PRINTABLE_STRING, false),
    ] {
        let leaf = odd_leaf(&ca, |template| template.issuer = named(name, string));
        let verdict = add_chain([&leaf[..], ca.cert_der()]);
        assert_eq!(verdict.is_ok(), accepted, "{verdict:?}");
    }
}

#[test]
fn cross_signatures_that_go_in_a_circle() {
    let a = odd_ca(&pki().root, "A", |_| ());
    let b = odd_ca(&a, "B", |_| ());
    let cross = |issuer: &Authority, subject: &Authority| {
        let mut template = issuer
            .ca_template(&CaOptions::named("", KeyType::EcdsaP256), subject.key())
            .unwrap();
        template.subject = subject.name().clone();
        issuer.sign(&template).unwrap()
    };
    let a_by_b = cross(&b, &a);
    let leaf = leaf(&a);
    let root = pki().root.cert_der();
    let circle = chain(&[&leaf, &a_by_b, b.cert_der(), a.cert_der(), root]);
    assert_eq!(add_chain(&circle).unwrap().issuers.len(), 4);
    // Another accepted root has cross-signed this root: both chain ends are accepted, an unaccepted
    // end is not.
    let stranger = Authority::root(&CaOptions::named("Stranger", KeyType::EcdsaP256)).unwrap();
    let root_by_stranger = cross(&stranger, &pki().root);
    let past = chain(&[&leaf, a.cert_der(), &root_by_stranger, stranger.cert_der()]);
    assert_eq!(refused(add_chain(&past)), (Code::UnknownRoot, Some(3)));
    let both = log(&[root, stranger.cert_der()], Policy::default());
    submit(&both, EntryKind::X509, &past).unwrap();
}

#[test]
fn intermediates_and_leaves_as_roots() {
    let ca = &pki().rsa;
    let leaf = leaf(ca);
    let intermediate = log(&[ca.cert_der()], Policy::default());
    for submission in [vec![&leaf[..]], vec![&leaf, ca.cert_der()]] {
        let entry = submit(&intermediate, EntryKind::X509, &submission).unwrap();
        assert_eq!(entry.issuers.len(), 1);
    }
    let itself = log(&[&leaf], Policy::default());
    assert!(
        submit(&itself, EntryKind::X509, [&leaf])
            .unwrap()
            .issuers
            .is_empty()
    );
    let precert = ca
        .issue(&pki().leaf("example.test").precertificate())
        .unwrap();
    let itself = log(&[&precert], Policy::default());
    let found = refused(submit(&itself, EntryKind::Precert, [&precert]));
    assert_eq!(found, (Code::MissingIssuer, Some(0)));
}

#[test]
fn roots_that_share_a_name() {
    let root = || Authority::root(&CaOptions::named("Twin", KeyType::EcdsaP256)).unwrap();
    let (one, two) = (root(), root());
    let log = log(&[one.cert_der(), two.cert_der()], Policy::default());
    for root in [&one, &two] {
        let leaf = leaf(root);
        let entry = submit(&log, EntryKind::X509, [&leaf]).unwrap();
        assert_eq!(entry.issuers[0].der, root.cert_der());
        let precert = root
            .issue(&pki().leaf("example.test").precertificate())
            .unwrap();
        // If the root is omitted, the issuer is unknown before the signature is verified.
        let short = Chain::from_ders([&precert]).unwrap();
        let examined = log.examine(&short, EntryKind::Precert, 0).unwrap();
        assert_eq!(examined.identity(), None);
        let without = log.verify(examined).unwrap();
        let with = submit(&log, EntryKind::Precert, [&precert[..], root.cert_der()]).unwrap();
        assert_eq!(without.identity, with.identity);
        assert_eq!(with.issuers[0].der, root.cert_der());
        let below = odd_ca(root, "Below", |_| ());
        let leaf = crate::minting::leaf(&below);
        let entry = submit(&log, EntryKind::X509, [&leaf[..], below.cert_der()]).unwrap();
        assert_eq!(entry.issuers[1].der, root.cert_der());
    }
}

#[test]
fn extended_key_usages() {
    let any = "2.5.29.37.0".parse::<Oid>().unwrap();
    for (eku, accepted) in [
        (vec![oid::SERVER_AUTH], true),
        (vec![oid::CLIENT_AUTH, any], true),
        (vec![oid::CLIENT_AUTH], false),
        (vec![], false),
    ] {
        let options = LeafOptions {
            eku,
            ..pki().leaf("example.test")
        };
        let leaf = pki().p256.issue(&options).unwrap();
        let submission = [&leaf[..], pki().p256.cert_der()];
        if accepted {
            drop(add_chain(submission).unwrap());
        } else {
            let rejection = add_chain(submission).unwrap_err();
            assert_eq!(rejection.code, Code::MissingServerAuth);
            let accepted = "serverAuth (1.3.6.1.5.5.7.3.1) or anyExtendedKeyUsage (2.5.29.37.0)";
            assert!(rejection.detail.ends_with(accepted), "{rejection}");
        }
        let policy = Policy {
            require: Require::Any,
            ..Policy::default()
        };
        submit(
            &log(&[pki().root.cert_der()], policy),
            EntryKind::X509,
            submission,
        )
        .unwrap();
    }
}

#[test]
fn validity() {
    let leaf = odd_leaf(&pki().p256, |template| {
        template.not_after = Time::from_unix(1_767_225_600)
    });
    let submission = [&leaf[..], pki().p256.cert_der()];
    let (not_after, root) = (1_767_225_600_000, pki().root.cert_der());
    let policy = Policy::default;
    let window = |start, limit| Policy {
        not_after_start: start,
        not_after_limit: limit,
        ..policy()
    };
    let verdict = |policy, now_ms| {
        let log = log(&[root], policy);
        let chain = Chain::from_ders(submission).unwrap();
        log.examine(&chain, EntryKind::X509, now_ms)
            .map(drop)
            .map_err(|rejection| rejection.code)
    };
    assert_eq!(
        verdict(window(Some(not_after), Some(not_after + 1)), 0),
        Ok(())
    );
    assert_eq!(verdict(window(None, Some(not_after + 1)), 0), Ok(()));
    assert_eq!(
        verdict(window(Some(not_after + 1), None), 0),
        Err(Code::OutsideWindow)
    );
    assert_eq!(
        verdict(window(None, Some(not_after)), 0),
        Err(Code::OutsideWindow)
    );
    let expired = || Policy {
        reject_expired: true,
        ..policy()
    };
    let unexpired = || Policy {
        reject_unexpired: true,
        ..policy()
    };
    assert_eq!(verdict(expired(), not_after), Ok(()));
    assert_eq!(verdict(expired(), not_after + 1), Err(Code::Expired));
    assert_eq!(verdict(unexpired(), not_after + 1), Ok(()));
    assert_eq!(verdict(unexpired(), not_after), Err(Code::NotExpired));
}

#[test]
fn extensions_refused_by_configuration() {
    let policy = Policy {
        reject_extensions: vec!["1.2.3.4".parse().unwrap()],
        ..Policy::default()
    };
    let log = log(&[pki().root.cert_der()], policy);
    let extension = Extension::new("1.2.3.4".parse::<Oid>().unwrap(), false, Der::null);
    let odd = odd_leaf(&pki().p256, |template| template.extensions.push(extension));
    let found = refused(submit(
        &log,
        EntryKind::X509,
        [&odd[..], pki().p256.cert_der()],
    ));
    assert_eq!(found, (Code::ExtensionRefused, Some(0)));
    let usual = leaf(&pki().p256);
    submit(&log, EntryKind::X509, [&usual[..], pki().p256.cert_der()]).unwrap();
}

/// After a number of signatures a key is verified by another implementation, which must still
/// detect every wrong byte.
#[test]
fn a_key_that_is_met_often() {
    for ca in [&pki().rsa, &pki().p256, &pki().p384] {
        let log = usual();
        let good = leaf(ca);
        for _ in 0..100 {
            submit(&log, EntryKind::X509, [&good[..], ca.cert_der()]).unwrap();
        }
        for number in 0..20 {
            let name = format!("{number}.example.test");
            let other = ca.issue(&pki().leaf(&name)).unwrap();
            submit(&log, EntryKind::X509, [&other[..], ca.cert_der()]).unwrap();
        }
        for from_the_end in 1..40 {
            let mut bad = good.clone();
            let at = bad.len() - from_the_end;
            bad[at] ^= 0x40;
            let found = refused(submit(&log, EntryKind::X509, [&bad[..], ca.cert_der()]));
            assert_eq!(found, (Code::InvalidSignature, Some(0)), "{from_the_end}");
        }
    }
}
