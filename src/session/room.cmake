# Names that rooms of training have too: one program links both.
target_compile_definitions(braid_session PRIVATE contact_add=session_contact_add contact_find=session_contact_find
  jobs_start=session_jobs_start)
