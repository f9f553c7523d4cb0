"""Amazon Bedrock: the Converse API, and the credentials and signatures of its requests."""
