use super::*;
use lucarne_load::{Iteration, Recorder};

fn compile(text: &str, form: Escaping) -> Result<(Template, Values), TemplateError> {
    let mut scope = Scope::default();
    let slot = scope.declare("name").unwrap();
    let template = Template::compile(text, form, &mut scope)?;
    let mut values = Values::new(scope.shared(7), 3);
    values.begin(&Iteration::detached(&Recorder::detached("s"), 42), &[]);
    values.set(slot, "a b/\"ü\"\n".into());
    Ok((template, values))
}

fn written(text: &str, form: Escaping) -> String {
    let (template, mut values) = compile(text, form).unwrap();
    template.text(&mut values)
}

#[test]
fn values_are_written_where_they_stand() {
    assert_eq!(written("no values", Escaping::Plain), "no values");
    assert_eq!(
        written(
            "{{iteration}}/{{ user }}/{{iteration(width=5)}}",
            Escaping::Plain
        ),
        "42/3/00042"
    );
    assert_eq!(written("{{\"{{\"}}x{{'}}'}}", Escaping::Plain), "{{x}}");
    assert_eq!(written("{{name}}", Escaping::Plain), "a b/\"ü\"\n");
    assert_eq!(
        written("{{name}}", Escaping::Url),
        "a%20b%2F%22%C3%BC%22%0A"
    );
    assert_eq!(written("{{name|raw}}", Escaping::Url), "a b/\"ü\"\n");
    let json = written("{{name}}", Escaping::Json);
    let read: String = serde_json::from_str(&format!("\"{json}\"")).unwrap();
    assert_eq!(read, "a b/\"ü\"\n");
    // The text around a value is not escaped.
    assert_eq!(written("/a b?{{user}}", Escaping::Url), "/a b?3");
}

#[test]
fn unique_words_are_unique_and_the_same_within_an_iteration() {
    let (template, mut values) = compile("{{unique}} {{unique}}", Escaping::Plain).unwrap();
    let text = template.text(&mut values);
    let (one, two) = text.split_once(' ').unwrap();
    assert_eq!(one, two);
    values.begin(&Iteration::detached(&Recorder::detached("s"), 43), &[]);
    assert!(!template.text(&mut values).contains(one));
    // Another run with the same seed.
    let (template, mut values) = compile("{{unique}}", Escaping::Plain).unwrap();
    assert_ne!(template.text(&mut values), one);
}

#[test]
fn counters_go_round() {
    let (template, mut values) =
        compile("{{counter(from=8, to=10, width=3)}}", Escaping::Plain).unwrap();
    let written: Vec<_> = (0..5).map(|_| template.text(&mut values)).collect();
    assert_eq!(written, ["008", "009", "010", "008", "009"]);
    // Equal texts share a counter; different texts have different counters.
    assert_eq!(
        written_twice("{{counter}} {{counter}} {{counter(from=5)}}"),
        ["0 1 5", "2 3 6"]
    );
}

#[test]
fn parts_of_a_run_share_a_counter() {
    let mut written = Vec::new();
    for part in ["1/2", "2/2"] {
        let mut scope = Scope::default();
        let template = Template::compile("{{counter}}", Escaping::Plain, &mut scope).unwrap();
        let shared = scope.shared(7);
        shared.divide(part.parse().unwrap());
        let mut values = Values::new(shared, 0);
        written.push(
            (0..3)
                .map(|_| template.text(&mut values))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(written, [["0", "2", "4"], ["1", "3", "5"]]);
}

#[test]
fn bounds_may_be_worked_out() {
    let last = |text: &str| {
        let (template, mut values) = compile(text, Escaping::Plain).unwrap();
        let written = (0..7).map(|_| template.text(&mut values));
        written.max().unwrap()
    };
    assert_eq!(last("{{counter(from=1, to=10 / 3)}}"), "4");
    assert_eq!(last("{{counter(from=1, to=2*6/3, width=5)}}"), "00004");
    for wrong in ["10 /", "/ 2", "10 / 0", "1.5", "99999999999 * 99999999999"] {
        let text = format!("{{{{counter(to={wrong})}}}}");
        let error = compile(&text, Escaping::Plain).unwrap_err();
        let expected = TemplateError::Arguments {
            value: "counter".into(),
            source: ArgumentError::NotWhole(wrong.into()),
        };
        assert_eq!(error, expected);
    }
}

fn written_twice(text: &str) -> [String; 2] {
    let (template, mut values) = compile(text, Escaping::Plain).unwrap();
    [template.text(&mut values), template.text(&mut values)]
}

#[test]
fn chance_stays_within_its_bounds() {
    let text = "{{random(from=3, to=5)}} {{pick(a, \"b c\")}} {{hex(4)}} {{uuid}}";
    let (template, mut values) = compile(text, Escaping::Plain).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let text = template.text(&mut values);
        let uuid = text.rsplit(' ').next().unwrap().to_owned();
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"), "{uuid}");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        seen.insert(text[..4].to_owned());
        assert!(text.contains(" a ") || text.contains(" b c "), "{text}");
    }
    let numbers: Vec<_> = seen.iter().map(|text| &text[..1]).collect();
    assert!(numbers.contains(&"3") && numbers.contains(&"5"), "{seen:?}");
    assert!(numbers.iter().all(|number| "345".contains(number)));
    let all = written(
        "{{random(from=0, to=18446744073709551615)}}",
        Escaping::Plain,
    );
    assert!(all.parse::<u64>().is_ok());
}

#[test]
fn mistakes_are_explained() {
    for (text, expected) in [
        ("{{nmae}}", "did you mean `{{name}}`?"),
        ("{{uniqe}}", "did you mean `{{unique}}`?"),
        ("{{colour}}", "known values: name, unique"),
        ("{{name", "without its `}}`"),
        ("{{}}", "is not a name"),
        ("{{random}}", "needs `to=`"),
        ("{{random(from=5, to=1)}}", "has a `to` below its `from`"),
        ("{{counter(form=1)}}", "the unknown argument `form`"),
        ("{{unique(5)}}", "the unknown argument `5`"),
        ("{{hex}}", "needs a number"),
        ("{{hex(many)}}", "`many`, expected a whole number"),
        ("{{hex(99999)}}", "above 1024"),
        ("{{pick()}}", "expected the texts to choose from"),
        ("{{pick(a,,b)}}", "an empty argument"),
        ("{{random(from=1}}", "without a matching `)`"),
        ("{{name | upper}}", "after `|`; expected `raw`"),
    ] {
        let error = compile(text, Escaping::Plain).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let mut scope = Scope::default();
    let own = NameError::Reserved("counter".into());
    let words = NameError::Invalid("two words".into());
    assert_eq!(
        own.to_string(),
        "`counter` is the name of a built-in value: use another name"
    );
    assert_eq!(
        words.to_string(),
        "`two words` is not a name: expected letters, digits and `_`"
    );
    assert_eq!(scope.declare("counter"), Err(own));
    assert_eq!(scope.declare("two words"), Err(words));
}

#[test]
fn a_value_that_is_not_there_makes_a_text_not_ready() {
    let mut scope = Scope::default();
    let slot = scope.declare("id").unwrap();
    let template = Template::compile("/x/{{id}}", Escaping::Url, &mut scope).unwrap();
    let mut values = Values::new(scope.shared(1), 0);
    assert!(!template.is_ready(&values));
    values.set(slot, "7".into());
    assert!(template.is_ready(&values));
    values.begin(&Iteration::detached(&Recorder::detached("s"), 0), &[slot]);
    assert!(!template.is_ready(&values));
}
