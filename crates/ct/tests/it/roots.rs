//! Tests of roots files: bundles with garbage, CCADB reports, and `get-roots`.

use lucarne_ct::{CcadbError, CcadbProgramme, Certificate, Fingerprint, Roots};
use lucarne_mint::{Authority, CaOptions, KeyType};

fn authorities(count: usize) -> Vec<Authority> {
    let name = |number| format!("Root {number}");
    (0..count)
        .map(|number| {
            Authority::root(&CaOptions::named(&name(number), KeyType::EcdsaP256)).unwrap()
        })
        .collect()
}

fn subjects(roots: &Roots) -> Vec<String> {
    roots.iter().map(|root| root.subject()).collect()
}

#[test]
fn garbage_between_certificates() {
    let cas = authorities(3);
    let pem = |number: usize| cas[number].certificate_pem();
    let broken = pem(0).replacen("MII", "AII", 1).replacen("MI", "AI", 1);
    let text = format!(
        "# a comment\n{}\u{fffd} noise\n{}-----BEGIN RSA PRIVATE KEY-----\nAA==\n-----END RSA PRIVATE KEY-----\n{}\n{}-----BEGIN CERTIFICATE-----\nAAAA",
        pem(0),
        broken,
        pem(1),
        pem(0),
    );
    let (roots, skipped) = Roots::from_pem(text.as_bytes());
    assert_eq!(
        subjects(&roots),
        [cas[0].clone(), cas[1].clone()].map(|ca| {
            let found: Vec<_> = roots
                .iter()
                .filter(|root| root.der() == ca.cert_der())
                .collect();
            found[0].subject()
        })
    );
    assert_eq!(skipped.len(), 3, "{skipped:?}");
    assert_eq!(skipped[0].index, 1);
    assert!(
        skipped[1].reason.to_string().contains("RSA PRIVATE KEY"),
        "{}",
        skipped[1]
    );
    assert!(
        skipped[2].reason.to_string().contains("the file ends"),
        "{}",
        skipped[2]
    );
    assert!(skipped[0].line > 2);
}

#[test]
fn one_taken_out_is_found_by_nothing() {
    let cas = authorities(3);
    let mut roots = Roots::new();
    for ca in &cas {
        roots.add(ca.cert_der()).unwrap();
    }
    let before = roots.get_roots_json();
    let fingerprint = Fingerprint::of(cas[0].cert_der());
    assert!(roots.remove(&fingerprint));
    assert!(!roots.remove(&fingerprint));
    assert_eq!(roots.len(), 2);
    assert!(roots.get_roots_json().len() < before.len());
    for (ca, left) in cas.iter().zip([false, true, true]) {
        let root = Certificate::parse(ca.cert_der()).unwrap();
        assert_eq!(roots.find(&root).is_some(), left);
        assert_eq!(roots.find_by_subject(root.subject()).count() == 1, left);
    }
}

#[test]
fn merged_without_repetition() {
    let cas = authorities(3);
    let roots = |numbers: &[usize]| {
        let mut roots = Roots::new();
        numbers
            .iter()
            .for_each(|number| roots.add(cas[*number].cert_der()).unwrap());
        roots
    };
    let mut all = roots(&[0, 1]);
    assert!(all.get_roots_json().starts_with(b"{\"certificates\":[\""));
    all.merge(&roots(&[1, 2]));
    assert_eq!(all.len(), 3);
    let json: serde_json::Value = serde_json::from_slice(&all.get_roots_json()).unwrap();
    let listed = json["certificates"].as_array().unwrap();
    let expected = cas
        .iter()
        .map(|ca| base64_simd::STANDARD.encode_to_string(ca.cert_der()));
    assert!(
        listed
            .iter()
            .map(|base64| base64.as_str().unwrap())
            .eq(expected)
    );
    assert_eq!(Roots::new().get_roots_json(), "{\"certificates\":[]}");
    let found: Vec<_> = all.find_by_subject(cas[2].name().as_der()).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].der(), cas[2].cert_der());
    assert!(all.find_by_subject(b"\x30\x00").next().is_none());
}

#[test]
fn ccadb_reports() {
    let cas = authorities(5);
    let quoted = |number: usize| format!("\"'{}'\"", cas[number].certificate_pem());
    let report = format!(
        "\u{feff}CA Owner,Certificate Record Type,Mozilla Status,Apple Status,X.509 Certificate (PEM)\n\
         \"One, Inc.\",Root Certificate,Included,Not Included,{}\n\
         Two,Root Certificate,Not Included,Removed,{}\n\
         Three,Root Certificate,Not Included,Not Included,{}\n\
         Four,Intermediate Certificate,Included,Included,{}\n\
         Five,Root Certificate,Included,,\n\
         Six,root certificate,included,,{}\n",
        quoted(0),
        quoted(1),
        quoted(2),
        quoted(3),
        quoted(4),
    );
    let read = |programme: CcadbProgramme| programme.roots(report.as_bytes()).unwrap();
    let ders = |roots: &Roots| {
        roots
            .iter()
            .map(|root| root.der().to_vec())
            .collect::<Vec<_>>()
    };
    let expected = |numbers: &[usize]| {
        numbers
            .iter()
            .map(|number| cas[*number].cert_der().to_vec())
            .collect::<Vec<_>>()
    };
    let (trusted, skipped) = read(CcadbProgramme::Trusted);
    assert_eq!(ders(&trusted), expected(&[0, 1, 4]));
    assert_eq!(skipped.len(), 1);
    assert_eq!(
        skipped[0].reason.to_string(),
        "the record has no certificate in PEM"
    );
    let (testing, _) = read(CcadbProgramme::Testing);
    assert_eq!(ders(&testing), expected(&[0, 1, 2, 4]));

    let other = CcadbProgramme::Testing.roots(b"a,b\n1,2\n").unwrap_err();
    assert!(matches!(other, CcadbError::NoColumn(_)), "{other}");
    let no_status = CcadbProgramme::Trusted.roots(b"PEM\n1\n").unwrap_err();
    assert!(matches!(no_status, CcadbError::NoColumn(_)), "{no_status}");
}
