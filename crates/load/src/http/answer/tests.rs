use proptest::prelude::*;

use super::*;

const MAX: usize = 1 << 20;

/// Feeds `pieces` and then, if `closed`, the end of the connection. Returns the response and the
/// unconsumed input.
fn decode(
    to_head: bool,
    pieces: &[&[u8]],
    closed: bool,
) -> Result<(Option<Answer<'static>>, Vec<u8>), Failure> {
    let mut answer = Answer::new(to_head, ReceivedBody::limited(MAX));
    let mut rest = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while answer.feed(&mut input)? == Progress::Interim {}
        rest.extend_from_slice(input);
    }
    if closed {
        answer.eof()?;
    }
    Ok((answer.is_done().then_some(answer), rest))
}

fn whole(bytes: &[u8]) -> Answer<'static> {
    let (answer, rest) = decode(false, &[bytes], false).unwrap();
    assert!(rest.is_empty());
    answer.expect("a whole answer")
}

fn kind_of(bytes: &[u8]) -> &'static str {
    match decode(false, &[bytes], true) {
        Ok(_) => "none",
        Err(failure) => failure.kind,
    }
}

#[test]
fn limits_of_a_head_are_named() {
    let fields = |count: usize, length: usize| {
        let field = format!("x: {}\r\n", "y".repeat(length));
        format!("HTTP/1.1 204 No Content\r\n{}\r\n", field.repeat(count))
    };
    whole(fields(200, 100).as_bytes());
    for (head, limit) in [
        (fields(257, 1), "it has more than 256 header fields"),
        (fields(2, 40_000), "its head is longer than 64 KiB"),
    ] {
        let pieces: Vec<&[u8]> = head.as_bytes().chunks(16 << 10).collect();
        let Err(failure) = decode(false, &pieces, false) else {
            panic!("accepted, although {limit}");
        };
        assert_eq!(failure.kind, kind::PROTOCOL);
        assert!(failure.detail.contains(limit), "{failure}");
    }
}

const ANSWERS: &[(&[u8], &[u8], bool)] = &[
    (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: y\r\n\r\nhello",
        b"hello",
        true,
    ),
    (
        b"HTTP/1.1 200 \r\ntransfer-encoding: Chunked\r\n\r\n3\r\nabc\r\nA;q=\"1\"\r\n0123456789\r\n0\r\nt: 1\r\n\r\n",
        b"abc0123456789",
        true,
    ),
    (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: x, Close\r\n\r\n", b"", false),
    (b"HTTP/1.1 204 No Content\r\n\r\n", b"", true),
    (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 700\r\n\r\n", b"", true),
    (b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", b"x", false),
    (
        b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\nconnection: keep-alive\r\n\r\nx",
        b"x",
        true,
    ),
    (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        b"ok",
        true,
    ),
];

#[test]
fn answers_are_read() {
    for (bytes, body, keep) in ANSWERS {
        let answer = whole(bytes);
        assert_eq!((&answer.body.kept[..], answer.keep), (*body, *keep));
    }
    assert_eq!(whole(ANSWERS[0].0).headers.get("X"), Some("y"));
    assert_eq!(whole(ANSWERS[7].0).status, 201);
}

#[test]
fn every_split_in_two_and_byte_by_byte() {
    for (bytes, body, keep) in ANSWERS {
        for at in 0..=bytes.len() {
            let (front, back) = bytes.split_at(at);
            let (answer, rest) = decode(false, &[front, back], false).unwrap();
            let answer = answer.unwrap_or_else(|| panic!("split at {at}"));
            assert_eq!(
                (&answer.body.kept[..], answer.keep),
                (*body, *keep),
                "at {at}"
            );
            assert!(rest.is_empty());
        }
        let pieces: Vec<_> = bytes.chunks(1).collect();
        let (answer, _) = decode(false, &pieces, false).unwrap();
        assert_eq!(&answer.unwrap().body.kept[..], *body);
    }
}

#[test]
fn no_truncated_answer_passes() {
    for (bytes, ..) in ANSWERS {
        for at in 0..bytes.len() {
            let outcome = decode(false, &[&bytes[..at]], true);
            let kind = outcome.expect_err("truncated").kind;
            assert!(kind == kind::RESET || kind == kind::BODY, "{kind} at {at}");
        }
    }
}

#[test]
fn head_has_no_body() {
    let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    let (answer, _) = decode(true, &[bytes], false).unwrap();
    assert!(answer.unwrap().keep);
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    assert!(decode(true, &[chunked], false).unwrap().0.is_some());
}

#[test]
fn until_the_connection_is_closed() {
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nall of ";
    let (answer, _) = decode(false, &[bytes, b"it"], true).unwrap();
    let answer = answer.unwrap();
    assert_eq!(
        (&answer.body.kept[..], answer.keep),
        (&b"all of it"[..], false)
    );
}

#[test]
fn what_follows_is_left() {
    let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200";
    let (answer, rest) = decode(false, &[bytes], false).unwrap();
    assert_eq!(
        (&answer.unwrap().body.kept[..], &rest[..]),
        (&b"x"[..], &b"HTTP/1.1 200"[..])
    );
}

#[test]
fn malformed_answers_are_refused() {
    for bytes in [
        &b"SSH-2.0-OpenSSH_9\r\n"[..],
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 999 OK\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\ncontent-length: 0\n\n",
        b"HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0x1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1, 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1 2\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\ntrailer\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1111111111111111\r\n",
    ] {
        assert_eq!(kind_of(bytes), kind::PROTOCOL, "{}", bytes.escape_ascii());
    }
}

#[test]
fn nothing_grows_without_end() {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    head.extend(std::iter::repeat_n(b"a: b\r\n", MAX_HEADERS + 1).flatten());
    head.extend(b"\r\n");
    assert_eq!(kind_of(&head), kind::PROTOCOL);

    let mut head = b"HTTP/1.1 200 OK\r\na: ".to_vec();
    head.extend([b'b'; MAX_HEAD]);
    assert_eq!(kind_of(&head), kind::PROTOCOL);
    let pieces: Vec<_> = head.chunks(1000).collect();
    assert_eq!(
        decode(false, &pieces, false).unwrap_err().kind,
        kind::PROTOCOL
    );

    let interim = b"HTTP/1.1 102 Processing\r\n\r\n".repeat(MAX_INTERIM as usize + 1);
    assert_eq!(kind_of(&interim), kind::PROTOCOL);

    for head in [
        format!("content-length: {}\r\n\r\n", MAX + 1),
        format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", MAX + 1),
        format!("\r\n{}", "x".repeat(MAX + 1)),
    ] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{head}");
        assert_eq!(kind_of(bytes.as_bytes()), kind::BODY);
    }
    let line = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;";
    let line = [&line[..], &[b'x'; MAX_CHUNK_LINE]].concat();
    assert_eq!(kind_of(&line), kind::PROTOCOL);
}

#[test]
fn a_long_body_is_read_to_its_place() {
    let mut answer = Answer::new(false, ReceivedBody::limited(MAX));
    let mut head = &b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nab"[..];
    assert_eq!(answer.feed(&mut head), Ok(Progress::More));
    let (space, most) = answer.direct().unwrap().expect("long enough");
    assert_eq!(most, 99_998);
    space.extend_from_slice(&[b'c'; 90_000]);
    answer.directly(90_000);
    assert!(answer.direct().unwrap().is_none(), "the rest is short");
    let rest = vec![b'd'; 9_998];
    assert_eq!(answer.feed(&mut &rest[..]), Ok(Progress::Done));
    assert_eq!(answer.body.kept.len(), 100_000);
    assert!(answer.body.kept.starts_with(b"abc") && answer.body.kept.ends_with(b"dd"));
}

/// Encodes a response with this body and framing.
fn encode(body: &[u8], chunks: &[usize], chunked: bool) -> Vec<u8> {
    if !chunked {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        return [head.as_bytes(), body].concat();
    }
    let mut bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let mut rest = body;
    for size in chunks {
        let size = (*size).min(rest.len());
        if size > 0 {
            bytes.extend(format!("{size:X}\r\n").as_bytes());
            bytes.extend(&rest[..size]);
            bytes.extend(b"\r\n");
            rest = &rest[size..];
        }
    }
    if !rest.is_empty() {
        bytes.extend(format!("{:x}\r\n", rest.len()).as_bytes());
        bytes.extend(rest);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

proptest! {
    #[test]
    fn any_body_in_any_pieces(
        body in proptest::collection::vec(any::<u8>(), 0..2000),
        chunks in proptest::collection::vec(1usize..600, 0..6),
        chunked: bool,
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = encode(&body, &chunks, chunked);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        let (answer, rest) = decode(false, &pieces, false).unwrap();
        prop_assert_eq!(&answer.unwrap().body.kept[..], &body[..]);
        prop_assert!(rest.is_empty());
    }

    /// The split of the bytes never changes the result.
    #[test]
    fn any_bytes_mean_the_same_however_they_are_cut(
        tail in proptest::collection::vec(any::<u8>(), 0..60),
        which in 0..ANSWERS.len(),
        keep in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let answer = ANSWERS[which].0;
        let bytes = [&answer[..keep.index(answer.len())], &tail].concat();
        let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
        let text = |outcome: Result<(Option<Answer<'static>>, Vec<u8>), Failure>| match outcome {
            Ok((Some(answer), rest)) => format!("{} {:?} {rest:?}", answer.status, answer.body.kept),
            Ok((None, _)) => "more".to_owned(),
            Err(failure) => failure.kind.to_owned(),
        };
        let whole = text(decode(false, &[&bytes], true));
        prop_assert_eq!(whole, text(decode(false, &[front, back], true)));
    }
}
