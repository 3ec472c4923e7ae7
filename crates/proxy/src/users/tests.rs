use super::*;
use crate::checks::ChecksFull;
use futures_util::poll;
use std::sync::atomic::Ordering;

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn basic(credentials: &str) -> HeaderValue {
    let encoded = base64_simd::STANDARD.encode_to_string(credentials);
    HeaderValue::try_from(format!("basic {encoded}")).unwrap()
}

async fn admits(users: &Arc<Users>, credentials: &str) -> bool {
    match users.admit(CLIENT, Some(&basic(credentials))).await {
        Ok(_) => true,
        Err(Failure::Authentication) => false,
        Err(other) => panic!("{other}"),
    }
}

fn parse(lines: &str) -> Arc<Users> {
    let users = Users::parse(lines).unwrap();
    // With long patience, a busy machine cannot change the results.
    let checks = Arc::new(Checks::new(Duration::from_secs(3600)));
    Arc::new(Users { checks, ..users })
}

fn rounds(users: &Users) -> u64 {
    users.rounds.swap(0, Ordering::SeqCst)
}

#[tokio::test]
async fn every_kind_of_line_admits_its_user_alone() {
    let bcrypt = bcrypt::hash_with_result("secret", 4).unwrap();
    for line in [
        "# users\n\nann:secret".to_owned(),
        "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\r\n".to_owned(),
        format!("ann:{}", bcrypt.format_for_version(bcrypt::Version::TwoY)),
    ] {
        let users = parse(&line);
        assert!(admits(&users, "ann:secret").await, "{line}");
        for wrong in [
            "ann:Secret",
            "ann:",
            "ann",
            "bob:secret",
            ":secret",
            "ann:secret ",
        ] {
            assert!(!admits(&users, wrong).await, "{line} {wrong}");
        }
    }
}

#[tokio::test]
async fn a_password_that_was_right_is_checked_once_and_does_not_admit_another() {
    let users = parse(&format!("ann:{}", bcrypt::hash("secret", 4).unwrap()));
    for (password, right, cost) in [
        ("secret", true, 16),
        ("secret", true, 0),
        ("wrong", false, 16),
        ("secret", true, 0),
    ] {
        assert_eq!(admits(&users, &format!("ann:{password}")).await, right);
        assert_eq!(rounds(&users), cost, "{password}");
    }
}

#[test]
fn what_was_right_is_forgotten_when_it_is_not_used() {
    let users = parse("ann:secret");
    let (user, start) = (&users.users["ann"], Instant::now());
    *user.known.lock() = Some(([1; 32], start));
    let almost = REMEMBERED - Duration::from_secs(1);
    assert!(!user.knows(&[2; 32], start));
    assert!(user.knows(&[1; 32], start + almost));
    assert!(user.knows(&[1; 32], start + almost * 2));
    assert!(!user.knows(&[1; 32], start + almost * 2 + REMEMBERED));
    assert!(user.known.lock().is_none());
}

#[tokio::test]
async fn a_wrong_password_costs_the_same_whether_there_is_such_a_user_or_not() {
    let hash = |cost| bcrypt::hash("secret", cost).unwrap();
    let lines = format!(
        "low:{}\nhigh:{}\nplain:secret\nsha:{{SHA}}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        hash(4),
        hash(7)
    );
    let users = parse(&lines);
    for name in ["low", "high", "plain", "sha", "nobody", ""] {
        for password in ["wrong", ""] {
            assert!(!admits(&users, &format!("{name}:{password}")).await);
            assert_eq!(rounds(&users), 1 << 7, "{name}:{password}");
        }
    }
    let long = format!("nobody:{}", "ü".repeat(1000));
    assert!(!admits(&users, &long).await);
    assert_eq!(rounds(&users), 1 << 7);
    // Without bcrypt, no further hashes are needed.
    let users = parse("plain:secret");
    assert!(!admits(&users, "nobody:wrong").await);
    assert_eq!(rounds(&users), 0);
}

/// bcrypt reads 72 bytes, as `htpasswd` does.
#[tokio::test]
async fn long_passwords_are_those_that_were_hashed() {
    let password = format!("{}ü{}", "a".repeat(71), "b".repeat(100));
    let users = parse(&format!("ann:{}", bcrypt::hash(&password, 4).unwrap()));
    assert!(admits(&users, &format!("ann:{password}")).await);
    assert!(!admits(&users, &format!("ann:{}", &password[..71])).await);
}

#[tokio::test]
async fn whoever_is_known_does_not_wait_behind_those_who_guess() {
    let users = parse(&format!("ann:{}", bcrypt::hash("secret", 4).unwrap()));
    assert!(admits(&users, "ann:secret").await);
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let mut waiting = Box::pin(
        users
            .checks
            .run(CLIENT, [0; 32], move || gate.recv().is_ok()),
    );
    assert!(poll!(&mut waiting).is_pending());
    let mut guesses: Vec<_> = (0..40).map(|n| basic(&format!("ann:{n}"))).collect();
    let last = guesses.split_off(15);
    let mut pending = Vec::new();
    for guess in &guesses {
        let mut one = Box::pin(users.admit(CLIENT, Some(guess)));
        assert!(poll!(&mut one).is_pending());
        pending.push(one);
    }
    for guess in &last {
        let refused = users.admit(CLIENT, Some(guess)).await;
        let full = matches!(refused, Err(Failure::Checks(ChecksFull::OfClient)));
        assert!(full, "{refused:?}");
    }
    assert!(admits(&users, "ann:secret").await);
    // Another client does not wait behind these guesses, even if its password is not
    // remembered.
    let elsewhere = "198.51.100.1".parse().unwrap();
    let unknown = users.admit(elsewhere, Some(&basic("bob:secret"))).await;
    assert!(matches!(unknown, Err(Failure::Authentication)));
    open.send(()).unwrap();
    for guess in pending {
        assert!(matches!(guess.await, Err(Failure::Authentication)));
    }
}

#[tokio::test]
async fn what_is_not_basic_is_nobody() {
    let users = parse("ann:secret");
    for wrong in ["Bearer x", "Basic", "Basic !", "Basic YW5u", ""] {
        let value = HeaderValue::from_static(wrong);
        assert!(users.admit(CLIENT, Some(&value)).await.is_err(), "{wrong}");
    }
    assert!(users.admit(CLIENT, None).await.is_err());
}

#[test]
fn lines_that_are_not_understood_are_said() {
    let error = |text: &str| Users::parse(text).unwrap_err();
    assert_eq!(error("# nobody\n"), UsersError::Nobody);
    assert_eq!(error("ann:x\nbob"), UsersError::Line(2));
    assert_eq!(error("ann:$apr1$x$y"), UsersError::Hash(1, "MD5"));
    assert_eq!(error("ann:$1$x$y"), UsersError::Hash(1, "MD5 crypt"));
    for des in ["rqXexS6ZhobKA", "rqXexS6ZhobKA ", "_J9..rasmBYk8r9AiWNc"] {
        assert_eq!(error(&format!("# all\nann:{des}")), UsersError::Des(2));
    }
    for plain in ["rqXexS6ZhobK", "rqXexS6ZhobK!", "_J9..rasmBYk8r9AiWN"] {
        assert!(Users::parse(&format!("ann:{plain}")).is_ok(), "{plain}");
    }
    assert_eq!(error("ann:{SSHA}AAAA"), UsersError::Hash(1, "salted SHA"));
    for unknown in [
        "$2$x",
        "$P$Bxyz",
        "$sha1$480000$salt$hash",
        "$md5,rounds=904$salt$$hash",
        "$pbkdf2-sha256$29000$salt$hash",
        "$gy$j9T$salt$hash",
        "{ssha}AAAA",
        "{SASL}ann@example",
        "{BLF-CRYPT}$2y$05$x",
    ] {
        let line = format!("bob:x\nann:{unknown}");
        assert_eq!(error(&line), UsersError::Marker(2), "{unknown}");
    }
    let told = error("ann:$hunter2$x").to_string();
    assert!(
        told.contains("htpasswd -B") && !told.contains("hunter2"),
        "{told}"
    );
    for plain in ["$", "$5.00", "$$x", "$a b$", "{}", "{a b}", "{x", "x$1$y"] {
        assert!(Users::parse(&format!("ann:{plain}")).is_ok(), "{plain}");
    }
    assert_eq!(error("ann:x\nbob:y\nann:z"), UsersError::Repeated(3));
    assert_eq!(error("ann:{SHA}AAAA"), UsersError::Malformed(1));
    assert_eq!(error("ann:$2y$10$short"), UsersError::Malformed(1));
    let hash = bcrypt::hash("secret", 4).unwrap();
    let costly = format!("ann:{}", hash.replacen("$04$", "$18$", 1));
    assert_eq!(error(&costly), UsersError::Cost(1, 18));
}
