//! Examples of RFC 7677 and of Kafka's rules.

use super::*;

const NAME: &str = "user";
const PASSWORD: &str = "pencil";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

fn credential(mechanism: ScramMechanism) -> ScramCredential {
    let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let salted = mechanism.salted_password(PASSWORD, &salt, 4_096);
    ScramCredential::new(mechanism, &salt, &salted, 4_096)
}

fn begin(first: &str) -> Result<(ScramExchange, String), Failure> {
    let mechanism = ScramMechanism::Sha256;
    let look_up = |name: &str| (name == NAME).then(|| credential(mechanism));
    let begun = ScramExchange::begin(mechanism, first.as_bytes(), SERVER_NONCE, look_up);
    begun.map(|(exchange, answer)| (exchange, String::from_utf8(answer).unwrap()))
}

/// The final message of a client that knows this password.
fn last(mechanism: ScramMechanism, exchange: &ScramExchange, password: &str) -> String {
    let credential = &exchange.credential;
    let salted = mechanism.salted_password(password, &credential.salt, 4_096);
    let client_key = mechanism.hmac(&salted, b"Client Key");
    let without_proof = format!("c=biws,r={}", exchange.nonce);
    let signed = format!("{},{without_proof}", exchange.firsts);
    let signature = mechanism.hmac(&mechanism.hash(&client_key), signed.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    format!("{without_proof},p={}", BASE64.encode(proof))
}

const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const NONCES: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

#[test]
fn the_example_of_rfc_7677() {
    let (exchange, answer) = begin(FIRST).unwrap();
    assert_eq!(answer, format!("r={NONCES},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
    let last = format!("c=biws,r={NONCES},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    let (name, answer) = exchange.end(last.as_bytes()).unwrap();
    assert_eq!(name, NAME);
    assert_eq!(answer, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn both_mechanisms_take_the_right_password_only() {
    for mechanism in ScramMechanism::ALL {
        for (password, is_right) in [(PASSWORD, true), ("pencil ", false), ("", false)] {
            let look_up = |_: &str| Some(credential(mechanism));
            let begun = ScramExchange::begin(mechanism, FIRST.as_bytes(), SERVER_NONCE, look_up);
            let (exchange, _) = begun.unwrap();
            let last = last(mechanism, &exchange, password);
            assert_eq!(exchange.end(last.as_bytes()).is_ok(), is_right, "{mechanism:?} {password}");
        }
    }
}

#[test]
fn users_that_do_not_exist_or_ask_for_others_are_refused() {
    for (first, why) in [
        ("n,,n=other,r=a", "no such user"),
        ("n,a=root,n=user,r=a", "an authorization id other than the user"),
        ("n,,n=user,r=a,tokenauth=true", "there are no delegation tokens"),
        ("y,,n=user,r=a", "a malformed message"),
    ] {
        assert_eq!(begin(first).unwrap_err().why, why, "{first}");
    }
    assert!(begin("n,a=user,n=user,r=a").is_ok());
}

#[test]
fn a_last_message_that_does_not_belong_to_the_first_is_refused() {
    let right = last(ScramMechanism::Sha256, &begin(FIRST).unwrap().0, PASSWORD);
    let cut = right.replace("p=", "p=AAAA");
    let short = format!("c=biws,r={NONCES},p=AAAA");
    for (message, why) in [
        (right.replace("O%h", "O%H"), "another nonce in its last message"),
        (right.replace("biws", "eSws"), "another channel binding in its last message"),
        (cut, "wrong password"),
        (short, "wrong password"),
        (String::new(), "a malformed message"),
    ] {
        let failure = begin(FIRST).unwrap().0.end(message.as_bytes()).unwrap_err();
        assert_eq!(failure.why, why, "{message}");
    }
}
