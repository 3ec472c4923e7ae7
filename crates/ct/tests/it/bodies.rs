//! Bodies of add-chain: decoded ones, and refused ones with their codes.

use lucarne_ct::{Chain, ChainLimits, Code, Rejection};

fn decode(body: &str) -> Result<Chain, Rejection> {
    Chain::decode_json(body.as_bytes(), &ChainLimits::default())
}

fn elements(body: &str) -> Vec<Vec<u8>> {
    decode(body).unwrap().iter().map(<[u8]>::to_vec).collect()
}

#[test]
fn decoded() {
    let expected = [vec![0, 1, 2, 3], vec![0xff; 3]];
    for body in [
        r#"{"chain":["AAECAw==","////"]}"#,
        " {\n\t\"chain\" : [ \"AAECAw==\" ,\r\n \"////\" ] } \n",
        r#"{"unknown":{"chain":["x",{"y":[null,1e9]}]},"chain":["AAECAw==","////"],"more":"\ud83d"}"#,
        r#"{"chain":["AAEC\nAw==\r\n","\/\/\/\/"]}"#,
        r#"{"chain":["AAECAw","////"]}"#,
        r#"{"chain":["AA EC\tAw==","////"]}"#,
        r#"{"\u0063hain":["AAECAw==","\u002f///"]}"#,
    ] {
        assert_eq!(elements(body), expected, "{body}");
    }
}

#[test]
fn refused() {
    for (body, code, index) in [
        ("", Code::InvalidJson, None),
        ("null", Code::InvalidJson, None),
        ("[]", Code::InvalidJson, None),
        ("{", Code::InvalidJson, None),
        (r#"{"chain":["AA=="]"#, Code::InvalidJson, None),
        (r#"{"chain":["AA=="]} x"#, Code::InvalidJson, None),
        (
            r#"{"chain":["AA=="],"chain":["AA=="]}"#,
            Code::InvalidJson,
            None,
        ),
        (r#"{"chain":"AA=="}"#, Code::InvalidJson, None),
        (r#"{"chain":[1]}"#, Code::InvalidJson, None),
        (r#"{"chain":[["AA=="]]}"#, Code::InvalidJson, None),
        ("{\"chain\":[\"AA\n==\"]}", Code::InvalidJson, None),
        ("{}", Code::MissingChain, None),
        (r#"{"chains":[]}"#, Code::MissingChain, None),
        (r#"{"chain":null}"#, Code::MissingChain, None),
        (r#"{"chain":[]}"#, Code::EmptyChain, None),
        (r#"{"chain":[""]}"#, Code::InvalidCertificate, Some(0)),
        (
            r#"{"chain":["AA==","\n"]}"#,
            Code::InvalidCertificate,
            Some(1),
        ),
        (r#"{"chain":["AA==","-_-_"]}"#, Code::InvalidBase64, Some(1)),
        (r#"{"chain":["A"]}"#, Code::InvalidBase64, Some(0)),
        (r#"{"chain":["A===","AA=="]}"#, Code::InvalidBase64, Some(0)),
    ] {
        let rejection = decode(body).unwrap_err();
        let found = (rejection.code, rejection.certificate_index);
        assert_eq!(found, (code, index), "{body}: {rejection}");
        assert_eq!(rejection.status(), 400);
    }
}

/// RFC 8259, section 8.1: JSON is UTF-8, also in fields that the decoder ignores.
#[test]
fn refused_without_utf8() {
    for body in [
        &b"{\"chain\":[\"AA==\"],\"more\":\"\xff\"}"[..],
        b"{\"more\":{\"x\":[\"\xe2\x82\"]},\"chain\":[\"AA==\"]}",
        b"{\"chain\":[\"AA==\"],\"\xff\":1}",
        b"{\"chain\":[\"AA==\xff\"]}",
    ] {
        let rejection = Chain::decode_json(body, &ChainLimits::default()).unwrap_err();
        assert_eq!(rejection.code, Code::InvalidJson, "{rejection}");
    }
    assert_eq!(elements(r#"{"more":"\u20ac €","chain":["AA=="]}"#), [[0]]);
}

#[test]
fn limited() {
    let body = br#"{"chain":["AAAA"]}"#;
    let limit = |max_body| Chain::decode_json(body, &ChainLimits { max_body });
    assert_eq!(limit(body.len()).unwrap().len(), 1);
    let rejection = limit(body.len() - 1).unwrap_err();
    assert_eq!(
        (rejection.code, rejection.status()),
        (Code::BodyTooLarge, 413)
    );
    assert!(rejection.detail.contains("17"), "{rejection}");
    let none: [&[u8]; 0] = [];
    assert_eq!(Chain::from_ders(none).unwrap_err().code, Code::EmptyChain);
}

/// A million nested arrays: they are not parsed recursively.
#[test]
fn deep() {
    let deep = "[".repeat(1_000_000);
    let body = format!(r#"{{"chain":["AA=="],"x":{deep}"#);
    let limits = ChainLimits { max_body: 1 << 24 };
    let rejection = Chain::decode_json(body.as_bytes(), &limits).unwrap_err();
    assert_eq!(rejection.code, Code::InvalidJson);
}
