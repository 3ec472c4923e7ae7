//! Option that both CT scenarios share.

use serde::Deserialize;

/// Level of the checks of the log during the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditLevel {
    /// Checks of the responses only
    None,
    /// Checkpoints and hash tiles: consistency, and inclusion of every entry with an SCT
    Inclusion,
    /// Also data tiles and issuers
    #[default]
    Full,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use lucarne_settings::values::show_duration;
    use lucarne_settings::{Report, tree, typed};

    use crate::ct::{read, write};
    use crate::option_values::{HttpVersion, Ratio};

    #[derive(Parser)]
    struct Write {
        #[command(flatten)]
        options: write::CtWriteOptions,
    }

    #[derive(Parser)]
    struct Read {
        #[command(flatten)]
        options: read::CtReadOptions,
    }

    /// Options without a value have the same defaults on the command line and in a plan.
    #[test]
    fn one_set_of_defaults() {
        let flags = Write::try_parse_from(["write"]).unwrap().options;
        assert_eq!(flags, write::CtWriteOptions::default());
        assert_eq!(flags, serde_json::from_str("{}").unwrap());
        let flags = Read::try_parse_from(["read"]).unwrap().options;
        assert_eq!(flags, read::CtReadOptions::default());
        assert_eq!(flags, serde_json::from_str("{}").unwrap());
    }

    #[test]
    fn flags_and_keys_say_the_same() {
        let flags = Write::try_parse_from([
            "write",
            "--log_url",
            "http://a/",
            "--log-url=http://b/",
            "--log_public_key",
            "AAEC",
            "--dup_chance=0.25",
            "--issuers",
            "p384",
            "--http",
            "2",
            "--mmd",
            "1m30s",
            "--not-after-limit",
            "2027-01-01",
            "--expect-restarts",
            "--audit=none",
        ]);
        let keys = r#"{"logUrl":["http://a/","http://b/"],"logPublicKey":["AAEC"],
            "duplicates":"0.25","issuers":"p384","http":"2","mmd":"90s",
            "notAfterLimit":"2027-01-01T00:00:00Z","expectRestarts":true,"audit":"none"}"#;
        let flags = flags.unwrap().options;
        assert_eq!(flags, serde_json::from_str(keys).unwrap());
        assert_eq!(show_duration(flags.mmd.0), "1m30s");

        let flags = [
            "read",
            "--reads",
            "entries:3,issuers",
            "--compression=zstd",
            "--cache",
        ];
        let keys = r#"{"reads":["entries:3","issuers:1"],"compression":"zstd","cache":true}"#;
        let flags = Read::try_parse_from(flags).unwrap().options;
        assert_eq!(flags, serde_json::from_str(keys).unwrap());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(serde_json::from_str::<write::CtWriteOptions>(r#"{"lgoUrl":["x"]}"#).is_err());
        for flag in [
            "--precerts=1.5",
            "--mmd=10",
            "--issuers=dsa",
            "--not-after-start=soon",
        ] {
            assert!(Write::try_parse_from(["write", flag]).is_err(), "{flag}");
        }
        for flag in ["--reads=leaves:1", "--reads=tiles:x", "--full-readers=-1"] {
            assert!(Read::try_parse_from(["read", flag]).is_err(), "{flag}");
        }
    }

    /// A plan is YAML: values that look like numbers are accepted, too.
    #[test]
    fn numbers_of_a_plan() {
        let read = |yaml: &str| {
            let known = ["http", "duplicates", "precerts", "ahead", "logUrl"];
            let node = tree::parse(yaml).unwrap();
            let mut report = Report::on(None);
            typed::read::<write::CtWriteOptions>(&node, "", &known, &mut report).unwrap()
        };
        let options =
            read("http: 2\nduplicates: 0.25\nprecerts: 1\nahead: 100\nlogUrl: http://a\n");
        assert_eq!((options.http, options.ahead), (HttpVersion::V2, 100));
        assert_eq!(
            (options.duplicates, options.precerts),
            (Ratio(0.25), Ratio(1.0))
        );
        assert_eq!(options.log_url, ["http://a"]);
        assert_eq!(read("http: 1.1\n").http, HttpVersion::V1);
    }
}
